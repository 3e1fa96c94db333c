// Matrices packed along their rows: the first S rows lie in the first field of S packed rows, the next S in the second field,
// and so on. In the flat order: element e is field e / stride of word e % stride (HQQ, quanto, BitNet).
#pragma once

#include <optional>

#include "tftf/quant/weight.h"

namespace tftf {

struct StridedFields {
  enum class ScaleBy : uint8_t { kRow, kColumn, kTensor };
  // q is the field less `offset`. All in F32, each step rounded; NaN is canonical.
  enum class Form : uint8_t {
    kScale,          // q * scale
    kDivide,         // q / scale
    kSubtractScale,  // (q - zero) * scale
    kScaleSubtract,  // scale * q - zero
  };

  uint64_t rows = 0;  // of the matrix that is packed; the weight is its elements in the flat order
  uint64_t columns = 0;
  uint64_t packed_rows = 0;
  uint32_t bits = 4;  // of a field: 1 to 8
  uint32_t word_bytes = 1;
  uint32_t fields = 2;      // of a word
  bool high_first = false;  // the first field is the highest
  int32_t offset = 0;
  std::optional<uint32_t> never{};  // a field that no writer writes: the codes are broken
  ScaleBy scale_by = ScaleBy::kRow;
  Form form = Form::kScale;
  DType scale_dtype{};
  DType zero_dtype{};

  bool has_zeros() const { return form == Form::kSubtractScale || form == Form::kScaleSubtract; }
  uint64_t stride() const { return packed_rows * columns; }
};

// Parts: words, scales and, where the form has them, zeros. Refuses parts whose bytes are not those of the geometry.
Result<Weight> strided_weight(const OpenContext& context, const QuantMatch& match,
                              const StridedFields& fields, const Shape& shape, TensorRef scales,
                              std::optional<TensorRef> zeros);

}  // namespace tftf
