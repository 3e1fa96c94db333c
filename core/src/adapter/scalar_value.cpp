#include "adapter/scalar_value.h"

#include "tftf/simd/floats.h"

namespace tftf {

std::optional<double> scalar_value(DType dtype, Bytes bytes) {
  if (bytes.size() < dtype_bits(dtype) / 8) return std::nullopt;
  const std::byte* at = bytes.data();
  switch (dtype) {
    case DType::F64:
      return load_le<double>(at);
    case DType::F32:
      return load_le<float>(at);
    case DType::F16:
      return f32_from_f16(load_le<uint16_t>(at));
    case DType::BF16:
      return f32_from_bf16(load_le<uint16_t>(at));
    case DType::I64:
      return static_cast<double>(load_le<int64_t>(at));
    case DType::I32:
      return load_le<int32_t>(at);
    case DType::I16:
      return load_le<int16_t>(at);
    case DType::I8:
      return load_le<int8_t>(at);
    case DType::U8:
      return load_le<uint8_t>(at);
    default:
      return std::nullopt;
  }
}

}  // namespace tftf
