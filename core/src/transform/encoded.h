// Matrices on their way to the codes of a layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stream.h"
#include "tftf/quant/encoder.h"

namespace tftf::transform {

// Ends the way of a matrix with the encoder (in F32, BF16 or F16, no side of it zero) and appends the tensors that stand
// for it. `stamp`: what a reader of colibri containers will find. Warns of what a reader would misread.
Result<void> encode_matrix(Stream& stream, StreamTensor matrix, const Encoder& encoder,
                           const EncodeOptions& options, std::optional<std::string> stamp,
                           std::vector<StreamTensor>& out);

// The same of what is planned already.
void encode_as(Stream& stream, StreamTensor matrix, Encoded encoded, std::vector<StreamTensor>& out);

}  // namespace tftf::transform
