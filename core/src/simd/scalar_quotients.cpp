// The way to codes in the arithmetic of a narrower type, one element at a time.
#include "simd/convert.h"
#include "simd/tables.h"

namespace tftf::simd::scalar {
namespace {

float rounded_to(DType type, float x) {
  if (type == DType::BF16) return simd::bf16_to_f32(simd::f32_to_bf16(x));
  if (type == DType::F16) return simd::f16_to_f32(simd::f32_to_f16(x));
  return x;
}

}  // namespace

void quotients(const QuotientRun& run, const float* x, uint64_t count, float* out) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    float y = rounded_to(run.type, x[i] / run.scale);
    y = rounded_to(run.type, y + run.zero);
    y = y < run.lowest ? run.lowest : y;
    out[i] = y > run.highest ? run.highest : y;
  }
}

void quantize_e2m1(const float* x, uint64_t count, std::byte* out) noexcept {
  const auto code = [x](uint64_t i) {
    const float m = x[i] < 0 ? -x[i] : x[i];
    const uint32_t magnitude = uint32_t{m > 0.25f} + uint32_t{m >= 0.75f} + uint32_t{m > 1.25f} +
                               uint32_t{m >= 1.75f} + uint32_t{m > 2.5f} + uint32_t{m >= 3.5f} +
                               uint32_t{m > 5.0f};
    return magnitude | (x[i] < 0 ? 8u : 0u);
  };
  uint64_t i = 0;
  for (; i + 2 <= count; i += 2) out[i / 2] = static_cast<std::byte>(code(i) | code(i + 1) << 4);
  if (i < count) out[i / 2] = static_cast<std::byte>(code(i));
}

}  // namespace tftf::simd::scalar
