// The element conversions of tftf/simd/floats.h as inline functions, for the loops of the portable kernels.
#pragma once

#include <cstdint>

#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"

namespace tftf::simd {

inline constexpr uint32_t kF32Magnitude = 0x7FFFFFFF;
inline constexpr uint32_t kF32Infinity = 0x7F800000;
inline constexpr uint32_t kF32QuietNan = 0x7FC00000;
inline constexpr uint64_t kF64Magnitude = 0x7FFFFFFFFFFFFFFF;
inline constexpr uint64_t kF64Infinity = 0x7FF0000000000000;
inline constexpr uint64_t kF64QuietNan = 0x7FF8000000000000;

inline bool is_finite(float x) { return (bit_cast<uint32_t>(x) & kF32Magnitude) < kF32Infinity; }
inline bool is_finite(double x) { return (bit_cast<uint64_t>(x) & kF64Magnitude) < kF64Infinity; }
inline bool is_infinite(float x) { return (bit_cast<uint32_t>(x) & kF32Magnitude) == kF32Infinity; }

// A result of arithmetic with its NaN made canonical.
inline float canonical(float x) { return x == x ? x : bit_cast<float>(kF32QuietNan); }
inline double canonical(double x) { return x == x ? x : bit_cast<double>(kF64QuietNan); }

inline float bf16_to_f32(uint16_t code) { return bit_cast<float>(static_cast<uint32_t>(code) << 16); }

inline uint16_t f32_to_bf16(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  if ((bits & kF32Magnitude) > kF32Infinity) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  const uint32_t field = (code >> 10) & 31u;
  const uint32_t fraction = code & 0x3FFu;
  if (field == 31) {
    const uint32_t quiet = fraction != 0 ? 0x00400000u : 0;
    return bit_cast<float>(sign | kF32Infinity | quiet | (fraction << 13));
  }
  if (field == 0) {  // a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * bit_cast<float>(uint32_t{127 - 24} << 23);
    return bit_cast<float>(sign | bit_cast<uint32_t>(magnitude));
  }
  return bit_cast<float>(sign | ((field + 112) << 23) | (fraction << 13));
}

inline uint16_t f32_to_f16(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & kF32Magnitude;
  uint32_t code = 0;
  if (magnitude > kF32Infinity) {
    code = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x477FF000u) {  // 65520, the middle between 65504 and 65536
    code = 0x7C00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the last bit of numbers in [0.5, 1) is worth 2^-24
    code = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    const uint32_t to_even = 0xFFFu + ((magnitude >> 13) & 1u);
    code = (magnitude + to_even - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | code);
}

// NaN is handled in integers: WebAssembly leaves the bits of a NaN made by a conversion open.
inline float f64_to_f32(double x) {
  const uint64_t bits = bit_cast<uint64_t>(x);
  if ((bits & kF64Magnitude) > kF64Infinity) {
    const uint32_t sign = static_cast<uint32_t>(bits >> 32) & 0x80000000u;
    return bit_cast<float>(sign | kF32QuietNan | (static_cast<uint32_t>(bits >> 29) & 0x003FFFFFu));
  }
  return static_cast<float>(x);
}
inline double f32_to_f64(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  if ((bits & kF32Magnitude) > kF32Infinity) {
    const uint64_t sign = static_cast<uint64_t>(bits & 0x80000000u) << 32;
    return bit_cast<double>(sign | kF64QuietNan | (static_cast<uint64_t>(bits & 0x007FFFFFu) << 29));
  }
  return static_cast<double>(x);
}

// `bits` bits (4 or 6) of element `index`, the first element in the lowest bits.
inline uint32_t sub_byte_code(const std::byte* data, uint64_t index, uint32_t bits) {
  const uint64_t at = index * bits;
  const uint32_t shift = static_cast<uint32_t>(at % 8);
  uint32_t window = std::to_integer<uint32_t>(data[at / 8]);
  if (shift + bits > 8) window |= std::to_integer<uint32_t>(data[at / 8 + 1]) << 8;
  return (window >> shift) & ((1u << bits) - 1);
}

// Loading and storing F32 values as BF16, F16 or F32, dispatched once per run: with_float(dtype, f) calls f
// with one of these.
struct AsBf16 {
  static constexpr size_t kBytes = 2;
  static float load(const std::byte* from) { return bf16_to_f32(load_le<uint16_t>(from)); }
  // Rounds, stores, and returns the stored value.
  static float store(std::byte* to, float x) {
    const uint16_t code = f32_to_bf16(x);
    store_le(to, code);
    return bf16_to_f32(code);
  }
};
struct AsF16 {
  static constexpr size_t kBytes = 2;
  static float load(const std::byte* from) { return f16_to_f32(load_le<uint16_t>(from)); }
  static float store(std::byte* to, float x) {
    const uint16_t code = f32_to_f16(x);
    store_le(to, code);
    return f16_to_f32(code);
  }
};
struct AsF32 {
  static constexpr size_t kBytes = 4;
  static float load(const std::byte* from) { return load_le<float>(from); }
  static float store(std::byte* to, float x) {
    store_le(to, x);
    return x;
  }
};
template <class F>
auto with_float(DType dtype, F f) {
  if (dtype == DType::BF16) return f(AsBf16{});
  if (dtype == DType::F16) return f(AsF16{});
  return f(AsF32{});
}

}  // namespace tftf::simd
