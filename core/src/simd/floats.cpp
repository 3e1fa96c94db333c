#include "tftf/simd/floats.h"

#include <array>

#include "simd/convert.h"

namespace tftf {
namespace {

using simd::kF32Infinity;
using simd::kF32Magnitude;
using simd::kF32QuietNan;
using simd::sub_byte_code;

// 2^exponent for -126 <= exponent <= 127.
constexpr float power_of_two(int exponent) {
  return bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// A binary float of up to 8 bits: sign, exponent field, fraction; exponent field 0 holds the subnormals.
struct SmallFloat {
  int exponent_bits, fraction_bits, bias;
  uint32_t largest;   // code of the largest finite magnitude
  uint32_t infinity;  // its code, or 0 for none
  uint32_t nan;       // smallest positive NaN code, or 0 for none
  bool fnuz;          // 80 is the only NaN, there is no -0

  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
};
constexpr SmallFloat kE4M3{4, 3, 7, 0x7E, 0, 0x7F, false};
constexpr SmallFloat kE5M2{5, 2, 15, 0x7B, 0x7C, 0x7D, false};
constexpr SmallFloat kE4M3Fnuz{4, 3, 8, 0x7F, 0, 0, true};
constexpr SmallFloat kE5M2Fnuz{5, 2, 16, 0x7F, 0, 0, true};
constexpr SmallFloat kE2M3{2, 3, 1, 0x1F, 0, 0, false};
constexpr SmallFloat kE3M2{3, 2, 3, 0x1F, 0, 0, false};
constexpr SmallFloat kE2M1{2, 1, 1, 0x07, 0, 0, false};

constexpr float decode(const SmallFloat& format, uint32_t code) {
  const uint32_t magnitude = code & (format.sign_bit() - 1);
  const bool negative = (code & format.sign_bit()) != 0;
  if (format.fnuz && negative && magnitude == 0) return bit_cast<float>(kF32QuietNan);
  if (format.nan != 0 && magnitude >= format.nan) return bit_cast<float>(kF32QuietNan);
  const float sign = negative ? -1.0f : 1.0f;
  if (format.infinity != 0 && magnitude == format.infinity) return sign * bit_cast<float>(kF32Infinity);
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  const int fraction = static_cast<int>(magnitude & ((1u << format.fraction_bits) - 1));
  const int hidden = field == 0 ? 0 : 1 << format.fraction_bits;
  const int exponent = (field == 0 ? 1 : field) - format.bias - format.fraction_bits;
  return sign * static_cast<float>(hidden + fraction) * power_of_two(exponent);
}

template <size_t N>
constexpr std::array<float, N> decode_all(const SmallFloat& format) {
  std::array<float, N> values{};
  for (size_t code = 0; code < N; ++code) values[code] = decode(format, static_cast<uint32_t>(code));
  return values;
}
constexpr std::array<float, 256> decode_all_e8m0() {
  std::array<float, 256> values{};
  for (uint32_t code = 1; code < 255; ++code) values[code] = bit_cast<float>(code << 23);
  values[0] = bit_cast<float>(uint32_t{0x00400000});  // 2^-127 is subnormal
  values[255] = bit_cast<float>(kF32QuietNan);
  return values;
}
constexpr auto kE4M3Values = decode_all<256>(kE4M3);
constexpr auto kE5M2Values = decode_all<256>(kE5M2);
constexpr auto kE4M3FnuzValues = decode_all<256>(kE4M3Fnuz);
constexpr auto kE5M2FnuzValues = decode_all<256>(kE5M2Fnuz);
constexpr auto kE8M0Values = decode_all_e8m0();
constexpr auto kE2M3Values = decode_all<64>(kE2M3);
constexpr auto kE3M2Values = decode_all<64>(kE3M2);
constexpr auto kE2M1Values = decode_all<16>(kE2M1);

// The code of the magnitude of x rounded to the format's grid; past `largest` when it overflows. x is finite.
uint32_t round_magnitude(const SmallFloat& format, float x) {
  const uint32_t bits = bit_cast<uint32_t>(x) & kF32Magnitude;
  const int smallest = 1 - format.bias;  // exponent of the subnormals' grid
  const int own = static_cast<int>(bits >> 23) - 127;
  const int exponent = own < smallest ? smallest : own;
  // How many grid steps: exact in f64, then rounded to a whole number, ties to even.
  const double steps = static_cast<double>(bit_cast<float>(bits)) *
                       static_cast<double>(power_of_two(format.fraction_bits - exponent));
  uint32_t whole = static_cast<uint32_t>(steps);
  const double rest = steps - static_cast<double>(whole);
  if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
  // The hidden bit of a normal value is part of `whole`, so it counts one exponent step; a carry counts the
  // next.
  return (static_cast<uint32_t>(exponent - smallest) << format.fraction_bits) + whole;
}

uint32_t encode(const SmallFloat& format, float x, bool saturate) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 31) != 0 ? format.sign_bit() : 0;
  const uint32_t magnitude_bits = bits & kF32Magnitude;
  if (magnitude_bits > kF32Infinity) {
    if (format.nan == 0) return format.sign_bit();  // FNUZ: NaN; F6 and F4: -0, there is no NaN
    return sign | (format.sign_bit() - 1);
  }
  uint32_t code = format.largest + 1;
  if (magnitude_bits != kF32Infinity) code = round_magnitude(format, x);
  if (code > format.largest) {
    if (saturate) return sign | format.largest;
    if (format.fnuz) return format.sign_bit();
    return sign | (format.infinity != 0 ? format.infinity : format.nan);
  }
  if (format.fnuz && code == 0) return 0;
  return sign | code;
}

const SmallFloat& f8_format(DType dtype) {
  switch (dtype) {
    case DType::F8_E5M2:
      return kE5M2;
    case DType::F8_E4M3FNUZ:
      return kE4M3Fnuz;
    case DType::F8_E5M2FNUZ:
      return kE5M2Fnuz;
    default:
      return kE4M3;
  }
}

}  // namespace

float f32_from_bf16(uint16_t code) noexcept { return simd::bf16_to_f32(code); }
float f32_from_f16(uint16_t code) noexcept { return simd::f16_to_f32(code); }
uint16_t f16_from_f32(float x) noexcept { return simd::f32_to_f16(x); }
uint16_t bf16_from_f32(float x) noexcept { return simd::f32_to_bf16(x); }
float f32_from_f64(double x) noexcept { return simd::f64_to_f32(x); }
double f64_from_f32(float x) noexcept { return simd::f32_to_f64(x); }

const float* f8_values(DType dtype) noexcept {
  switch (dtype) {
    case DType::F8_E5M2:
      return kE5M2Values.data();
    case DType::F8_E4M3FNUZ:
      return kE4M3FnuzValues.data();
    case DType::F8_E5M2FNUZ:
      return kE5M2FnuzValues.data();
    case DType::F8_E8M0:
      return kE8M0Values.data();
    default:
      return kE4M3Values.data();
  }
}
const float* f6_values(DType dtype) noexcept {
  return dtype == DType::F6_E2M3 ? kE2M3Values.data() : kE3M2Values.data();
}
const float* f4_values() noexcept { return kE2M1Values.data(); }

uint8_t f8_from_f32(DType dtype, float x, Overflow overflow) noexcept {
  return static_cast<uint8_t>(encode(f8_format(dtype), x, overflow == Overflow::kSaturate));
}
uint8_t f6_from_f32(DType dtype, float x) noexcept {
  return static_cast<uint8_t>(encode(dtype == DType::F6_E2M3 ? kE2M3 : kE3M2, x, true));
}
uint8_t f4_from_f32(float x) noexcept { return static_cast<uint8_t>(encode(kE2M1, x, true)); }

uint8_t e8m0_from_f32(float x) noexcept {
  const uint32_t bits = bit_cast<uint32_t>(x);
  if (bits == 0x80000000u) return 0;
  if (bits >= kF32Infinity) return 0xFF;  // infinite, NaN or negative
  if (bits < 0x00600000u) return 0;       // 1.5 * 2^-127
  // Half an exponent step up, then cut: 1.5 * 2^n and more reach the next power.
  const uint32_t field = (bits + 0x00400000u) >> 23;
  return static_cast<uint8_t>(field);
}

double element_as_f64(DType dtype, const std::byte* data, uint64_t index) noexcept {
  switch (dtype) {
    case DType::BOOL:
      return data[index] != std::byte{0} ? 1.0 : 0.0;
    case DType::U8:
      return load_le<uint8_t>(data + index);
    case DType::I8:
      return load_le<int8_t>(data + index);
    case DType::U16:
      return load_le<uint16_t>(data + 2 * index);
    case DType::I16:
      return load_le<int16_t>(data + 2 * index);
    case DType::U32:
      return load_le<uint32_t>(data + 4 * index);
    case DType::I32:
      return load_le<int32_t>(data + 4 * index);
    case DType::U64:
      return static_cast<double>(load_le<uint64_t>(data + 8 * index));
    case DType::I64:
      return static_cast<double>(load_le<int64_t>(data + 8 * index));
    case DType::F64:
      return load_le<double>(data + 8 * index);
    case DType::F32:
      return f64_from_f32(load_le<float>(data + 4 * index));
    case DType::F16:
      return f64_from_f32(f32_from_f16(load_le<uint16_t>(data + 2 * index)));
    case DType::BF16:
      return f64_from_f32(f32_from_bf16(load_le<uint16_t>(data + 2 * index)));
    case DType::F4:
      return f64_from_f32(f4_values()[sub_byte_code(data, index, 4)]);
    case DType::F6_E2M3:
    case DType::F6_E3M2:
      return f64_from_f32(f6_values(dtype)[sub_byte_code(data, index, 6)]);
    case DType::F8_E5M2:
    case DType::F8_E4M3:
    case DType::F8_E8M0:
    case DType::F8_E4M3FNUZ:
    case DType::F8_E5M2FNUZ:
      return f64_from_f32(f8_values(dtype)[load_le<uint8_t>(data + index)]);
    case DType::C64:
      break;
  }
  return 0;
}

uint64_t element_bits(DType dtype, const std::byte* data, uint64_t index) noexcept {
  switch (dtype_bits(dtype)) {
    case 4:
    case 6:
      return sub_byte_code(data, index, dtype_bits(dtype));
    case 8:
      return load_le<uint8_t>(data + index);
    case 16:
      return load_le<uint16_t>(data + 2 * index);
    case 32:
      return load_le<uint32_t>(data + 4 * index);
    default:
      return load_le<uint64_t>(data + 8 * index);
  }
}

}  // namespace tftf
