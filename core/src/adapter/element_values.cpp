// Widening, scaling and rounding of single elements.
#include "adapter/element_values.h"

#include <cstring>

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

template <class T>
void store(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

bool can_scale(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

float value_at(DType dtype, const std::byte* values, uint64_t at) noexcept {
  const std::byte* const from = values + to_size(at * (dtype_bits(dtype) / 8));
  switch (dtype) {
    case DType::F64:
      return f32_from_f64(load_le<double>(from));
    case DType::F32:
      return load_le<float>(from);
    case DType::F16:
      return f32_from_f16(load_le<uint16_t>(from));
    case DType::BF16:
      return f32_from_bf16(load_le<uint16_t>(from));
    default:
      return 0;
  }
}

void put_value(DType dtype, std::byte* values, uint64_t at, float value) noexcept {
  std::byte* const to = values + to_size(at * (dtype_bits(dtype) / 8));
  switch (dtype) {
    case DType::F64:
      return store(to, f64_from_f32(value));
    case DType::F32:
      return store(to, value);
    case DType::F16:
      return store(to, f16_from_f32(value));
    case DType::BF16:
      return store(to, bf16_from_f32(value));
    default:
      return;
  }
}

void scale_values(DType dtype, std::byte* values, uint64_t count, double scale) noexcept {
  if (dtype == DType::F64) {
    for (uint64_t i = 0; i < count; ++i) {
      std::byte* const at = values + to_size(i * 8);
      store(at, load_le<double>(at) * scale);
    }
    return;
  }
  const auto factor = static_cast<float>(scale);
  for (uint64_t i = 0; i < count; ++i) put_value(dtype, values, i, value_at(dtype, values, i) * factor);
}

}  // namespace tftf
