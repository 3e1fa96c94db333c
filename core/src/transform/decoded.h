// Quantised modules on their way to plain elements.
#pragma once

#include <optional>

#include "stream.h"
#include "tftf/quant/format.h"

namespace tftf::transform {

// Puts the way of a module's codes to elements of `to` (F32, BF16 or F16) into `weight`, its codes in the stream. Refusals
// name module and layout.
Result<void> decode_weight(const Stream& stream, const QuantMatch& match, DType to, StreamTensor& weight);

// Codes that were fused or split in this run are nobody's modules any more: kRefusedUnsupported names the first.
// `becomes`: "dequantised".
Result<void> check_moved_codes(const Stream& stream, const std::string& becomes);

// config.json's dtype when it is one that weights are dequantised to.
std::optional<DType> config_dtype(const Checkpoint& checkpoint);

}  // namespace tftf::transform
