// Rows of small codes with a scale for every group of them: the decoder of NVFP4, MXFP4, MXFP6, int4 and int8, whoever
// wrote them.
#pragma once

#include <optional>

#include "tftf/quant/weight.h"

namespace tftf {

enum class SmallCode : uint8_t {
  kE2m1,          // two in a byte, the first in the low bits
  kE2m1High,      // … in the high bits
  kE0m4,          // … in the low bits: a sign above three bits that count quarters
  kInt4,          // … in the low bits, two's complement
  kInt4RowPairs,  // a byte holds two rows: the even one in the low bits; two's complement
  kInt8,
  kE4m3,
  kE5m2,
  kE2m3,  // four in three bytes, the first in the low bits
  kE3m2,
};

// What is done with the scale of a whole matrix.
enum class GlobalScale : uint8_t {
  kNone,
  kMultiply,  // (code * scale) * global
  kDivide,    // code * (scale / global)
};

struct ScaledCodes {
  SmallCode code{};
  uint64_t rows = 0;  // of all matrices of a stack
  uint64_t columns = 0;
  uint64_t group = 0;           // columns that share a scale; the last of a row may be fewer
  uint64_t rows_per_scale = 1;  // rows that share it
  DType scale_dtype{};
  DType byte_scale = DType::F8_E8M0;  // what scales of dtype U8 are
  bool e5m3 = false;                  // … or E5M3, unsigned; then scale_dtype only says that they are bytes
  // The scales of one matrix, a byte each, in tiles of 128 rows and 4 groups (swizzle.h).
  bool swizzled = false;
  GlobalScale global = GlobalScale::kNone;
  uint64_t rows_per_global = 1;
  // A factor per column that the layout applies to activations: multiplies last.
  std::optional<DType> column_scale{};
  // Not 0: blocks of so many columns are rotated back, before the factor (rotation.h).
  uint64_t rotation = 0;
};

struct ScaledParts {
  TensorRef codes, scales;
  std::optional<TensorRef> global{};  // F32
  std::optional<TensorRef> column_scale{};
};

// Every product in F32, in the order above; NaN is canonical; one rounding to BF16 or F16. The tensors must have the sizes
// that `spec` says (code_row_bytes(), scale_bytes()).
Weight scaled_codes_weight(const ScaledCodes& spec, std::string_view word, const Shape& shape,
                           const ScaledParts& parts);

// Bytes of a row of codes (of two rows for kInt4RowPairs); nothing where they do not end with a byte.
std::optional<uint64_t> code_row_bytes(SmallCode code, uint64_t columns);
// All of the geometry, for Weight::key.
std::string scaled_codes_key(const ScaledCodes& spec);
// Bytes of all scales.
std::optional<uint64_t> scale_bytes(const ScaledCodes& spec);

// Opens a module of logical shape [.., rows, columns] whose codes, groups and order of scales `spec` says; the rest is taken
// from the tensors, whose sizes and dtypes are checked: the companions `scales`, `global`, and pre_quant_scale.
Result<Weight> open_scaled_codes(OpenContext& context, const QuantMatch& match, ScaledCodes spec,
                                 std::string_view scales, std::string_view global = {});

// Opens a module of I8 codes whose scales say by their shape what they multiply: all, a matrix of a stack, a row, or the
// blocks of the match. `rotation` as above.
Result<Weight> open_scaled_int8(OpenContext& context, const QuantMatch& match, std::string_view scales,
                                uint64_t rotation = 0);

}  // namespace tftf
