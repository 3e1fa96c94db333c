// Scales from values.
#include "quant/ct/qparams.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr float kLargestE4m3 = 448.0f, kLargestE2m1 = 6.0f;

struct Machine {
  uint32_t mantissa;
  float eps, tiny;  // between 1 and the next number; the smallest normal one
};
Machine machine_of(DType type) {
  if (type == DType::BF16) return {7, 0x1p-7f, 0x1p-126f};
  if (type == DType::F16) return {10, 0x1p-10f, 0x1p-14f};
  return {23, 0x1p-23f, 0x1p-126f};
}

float e4m3(float x) { return f8_values(DType::F8_E4M3)[f8_from_f32(DType::F8_E4M3, x, Overflow::kSaturate)]; }

// To what the dtype holds, its largest value for more.
float rounded(DType dtype, float x) {
  if (dtype == DType::F8_E4M3) return e4m3(x);
  const float y = round_to(dtype, x);
  return std::isfinite(x) && !std::isfinite(y) ? (dtype == DType::F16 ? 65504.0f : 0x1.FEp127f) : y;
}

float zero_point(const ScaleRule& rule, float low, float scale) {
  float zero = round_to(rule.type, low / scale);
  zero = round_to(rule.type, rule.range.lowest - zero);
  if (!(zero == zero)) return 0.0f;
  zero = std::min(std::max(zero, rule.range.lowest), rule.range.highest);
  return rule.whole_zeros ? std::nearbyint(zero) : e4m3(zero);
}

}  // namespace

float round_to(DType type, float x) noexcept {
  if (type == DType::BF16) return f32_from_bf16(bf16_from_f32(x));
  if (type == DType::F16) return f32_from_f16(f16_from_f32(x));
  return x;
}

DType common_type(DType a, DType b) noexcept { return a == b ? a : DType::F32; }

CodeRange code_range(const Args& args) {
  if (args.is_float) {
    const float most = args.bits == 4 ? kLargestE2m1 : kLargestE4m3;
    return {-most, most, 2 * most};
  }
  const uint64_t bits = std::min<uint64_t>(std::max<uint64_t>(args.bits, 1), 24);
  const auto half = static_cast<float>(uint64_t{1} << (bits - 1));
  return {-half, half - 1, 2 * half - 1};
}

uint32_t scale_exponent(DType type, int32_t offset, float largest) noexcept {
  uint32_t field = 0;  // of the magnitude, rounded to a power of two
  int32_t bias = 127;
  if (type == DType::F32) {
    field = (bit_cast<uint32_t>(largest) + (1u << 21)) >> 23;
  } else if (type == DType::BF16) {
    field = (uint32_t{bf16_from_f32(largest)} + (1u << 5)) >> 7;
  } else {
    field = (uint32_t{f16_from_f32(largest)} + (1u << 8)) >> 10;
    bias = 15;
  }
  if (field == 0) return 0;
  if (field == (type == DType::F16 ? 31u : 255u)) return 255;  // it has become infinite
  return static_cast<uint32_t>(std::clamp(127 + static_cast<int32_t>(field) - bias - offset, 0, 255));
}

std::optional<uint8_t> exponent_of(float scale) noexcept {
  const uint32_t bits = bit_cast<uint32_t>(scale);
  if (bits == 0x00400000u) return uint8_t{0};  // 2^-127
  if (bits >> 31 != 0 || (bits & 0x007FFFFFu) != 0 || bits >> 23 == 0 || bits >> 23 == 255)
    return std::nullopt;
  return static_cast<uint8_t>(bits >> 23);
}

float global_scale(DType type, float largest) noexcept {
  const float clamped = std::max(largest, machine_of(type).tiny);
  const float scale = round_to(type, round_to(type, 1.0f / clamped) * (kLargestE4m3 * kLargestE2m1));
  return std::isfinite(scale) ? scale : 1.0f;
}

ScaleAndZero scale_between(const ScaleRule& rule, float low, float high, float global) noexcept {
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  const float largest = std::fabs(std::max(-low, high));
  const Machine machine = machine_of(rule.type);
  ScaleAndZero found;
  switch (rule.form) {
    case ScaleForm::kE4m3: {
      const float local = global * round_to(rule.type, largest / (rule.range.width / 2));
      found.scale = e4m3(std::min(std::max(local, -kLargestE4m3), kLargestE4m3));
      if (found.scale == 0) found.scale = 0.125f;
      return found;
    }
    case ScaleForm::kExponents: {
      const auto exponent = static_cast<int32_t>(scale_exponent(rule.type, rule.exponent_offset, largest));
      found.scale = round_to(rule.type, std::ldexp(1.0f, exponent - 127));
      if (found.scale == 0) found.scale = 1.0f;
      return found;
    }
    case ScaleForm::kPlain:
      break;
  }
  if (rule.symmetric) {
    found.scale = round_to(rule.type, largest / (rule.range.width / 2));
  } else {
    found.scale = round_to(rule.type, round_to(rule.type, high - low) / rule.range.width);
    found.zero = zero_point(rule, low, found.scale);
  }
  if (rule.rounded_to) found.scale = rounded(*rule.rounded_to, found.scale);
  if (found.scale == 0) found.scale = machine.eps;
  return found;
}

}  // namespace tftf::ct
