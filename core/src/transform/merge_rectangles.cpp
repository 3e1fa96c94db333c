#include "merge_rectangles.h"

#include <cmath>

#include "tftf/simd/floats.h"

namespace tftf::transform {

void canonicalise_nan(DType dtype, std::byte* values, uint64_t count) {
  const uint64_t size = dtype_bits(dtype) / 8;
  const uint64_t nan = dtype == DType::F64    ? 0x7FF8000000000000
                       : dtype == DType::F32  ? 0x7FC00000
                       : dtype == DType::BF16 ? 0x7FC0
                                              : 0x7E00;
  for (uint64_t i = 0; i < count; ++i) {
    if (!std::isnan(element_as_f64(dtype, values, i))) continue;
    for (uint64_t b = 0; b < size; ++b) values[i * size + b] = static_cast<std::byte>(nan >> (8 * b) & 0xFF);
  }
}

}  // namespace tftf::transform
