// Weights in colibri's containers, from codes and to codes (spec colibri 1).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/rans.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/weight.h"

namespace tftf::colibri {

// A matrix in one of colibri's formats but kF32 and kMxfp4.
struct ColibriMatrix {
  Format format{};
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t group_size = 0;  // kInt4Grouped
  uint32_t bits = 0;        // of a code, for encoding into the int8 and int4 containers
};

// Codes to F32, row by row (decode_row(), for E8 decode_e8_block() and the inverse rotation; FP8: fp8_grid.h).
Result<Weight> open_colibri(OpenContext& context, const QuantMatch& match);
// Records of int4-rans256-g0, which must decode to the codes of int4-row; a whole matrix is a tile.
Result<Weight> open_rans_record(OpenContext& context, const QuantMatch& match);

// Parts: NAME, and its scales NAME.qs, of the sizes that the format has. The rotation of an E8 matrix is kept in `kept`.
Weight colibri_weight(const ColibriMatrix& matrix, TensorRef codes, TensorRef scales,
                      std::map<std::string, std::shared_ptr<const void>>& kept);

// Elements to codes and (but for kE8Lattice, whose scale is a constant) scales: outputs 0 and 1, both flat.
Encoded colibri_encoded(const ColibriMatrix& matrix);

// By number of the format; empty for kF32 and kMxfp4.
extern const Encoder kColibriEncoders[9];
extern const CodeLayout kColibriFp8Codes;  // fp8_codes.cpp

}  // namespace tftf::colibri
