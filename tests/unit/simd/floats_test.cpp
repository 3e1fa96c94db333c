// Element conversions against independent rules: code values by ldexp from their fields, encodings by
// searching all codes for the nearest value, F16 and BF16 around every value and every midpoint.
#include "tftf/simd/floats.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tftf/base/bytes.h"

using namespace tftf;

namespace {

uint32_t bits_of(float x) { return tftf::bit_cast<uint32_t>(x); }
uint64_t bits_of(double x) { return tftf::bit_cast<uint64_t>(x); }
float f32(uint32_t bits) { return tftf::bit_cast<float>(bits); }

constexpr float kInf = std::numeric_limits<float>::infinity();

// Value of a code by its fields, in f64.
double by_fields(uint32_t code, int exponent_bits, int fraction_bits, int bias) {
  const double sign = (code >> (exponent_bits + fraction_bits)) != 0 ? -1 : 1;
  const int field = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  if (field == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), field - bias - fraction_bits);
}

struct Case {
  DType dtype;
  int exponent_bits, fraction_bits, bias;
  uint32_t codes, largest;
};
constexpr Case kCases[] = {
    {DType::F8_E4M3, 4, 3, 7, 256, 0x7E},     {DType::F8_E5M2, 5, 2, 15, 256, 0x7B},
    {DType::F8_E4M3FNUZ, 4, 3, 8, 256, 0x7F}, {DType::F8_E5M2FNUZ, 5, 2, 16, 256, 0x7F},
    {DType::F6_E2M3, 2, 3, 1, 64, 0x1F},      {DType::F6_E3M2, 3, 2, 3, 64, 0x1F},
    {DType::F4, 2, 1, 1, 16, 0x07},
};

const float* values_of(DType dtype) {
  if (dtype == DType::F4) return f4_values();
  if (dtype == DType::F6_E2M3 || dtype == DType::F6_E3M2) return f6_values(dtype);
  return f8_values(dtype);
}
uint32_t encode(DType dtype, float x, Overflow overflow) {
  if (dtype == DType::F4) return f4_from_f32(x);
  if (dtype == DType::F6_E2M3 || dtype == DType::F6_E3M2) return f6_from_f32(dtype, x);
  return f8_from_f32(dtype, x, overflow);
}
bool is_fnuz(DType dtype) { return dtype == DType::F8_E4M3FNUZ || dtype == DType::F8_E5M2FNUZ; }

// The magnitude code nearest to |x| among 0..largest and one imaginary step beyond it, ties to the even code.
uint32_t nearest(const Case& c, double x) {
  uint32_t best = 0;
  for (uint32_t code = 1; code <= c.largest + 1; ++code) {
    const double here = by_fields(code & (c.codes - 1), c.exponent_bits, c.fraction_bits, c.bias);
    // The imaginary step's code may run into the sign bit: then it is the next power of two.
    const double value = code == c.codes / 2
                             ? 2 * by_fields(c.codes / 4, c.exponent_bits, c.fraction_bits, c.bias) *
                                   std::ldexp(1.0, (1 << (c.exponent_bits - 1)) - 1)
                             : here;
    const double old = by_fields(best, c.exponent_bits, c.fraction_bits, c.bias);
    const double gain = std::fabs(old - x) - std::fabs(value - x);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

uint32_t expected_code(const Case& c, float x, Overflow overflow) {
  const uint32_t sign = std::signbit(x) ? c.codes / 2 : 0;
  // Far out the distances themselves would be rounded, and all are alike.
  const bool far = std::fabs(x) > 200000.0f;
  const uint32_t code = far ? c.largest + 1 : nearest(c, std::fabs(static_cast<double>(x)));
  if (code > c.largest) {
    if (c.codes < 256 || overflow == Overflow::kSaturate) return sign | c.largest;
    if (is_fnuz(c.dtype)) return 0x80;
    return sign | (c.dtype == DType::F8_E5M2 ? 0x7Cu : 0x7Fu);
  }
  return is_fnuz(c.dtype) && code == 0 ? 0 : sign | code;
}

}  // namespace

TEST_CASE("small float codes have the values of their fields") {
  for (const Case& c : kCases) {
    for (uint32_t code = 0; code < c.codes; ++code) {
      const float value = values_of(c.dtype)[code];
      const uint32_t magnitude = code % (c.codes / 2);
      INFO(dtype_name(c.dtype) << " code " << code);
      const bool nan = is_fnuz(c.dtype)
                           ? code == 0x80
                           : c.codes == 256 && magnitude > (c.dtype == DType::F8_E5M2 ? 0x7Cu : 0x7Eu);
      if (nan) {
        CHECK(bits_of(value) == 0x7FC00000u);
      } else if (c.dtype == DType::F8_E5M2 && magnitude == 0x7C) {
        CHECK(value == (code == 0x7C ? kInf : -kInf));
      } else {
        CHECK(bits_of(static_cast<double>(value)) ==
              bits_of(by_fields(code, c.exponent_bits, c.fraction_bits, c.bias)));
      }
    }
  }
}

TEST_CASE("known values of small float codes") {
  CHECK(f8_values(DType::F8_E4M3)[0x7E] == 448.0f);
  CHECK(f8_values(DType::F8_E4M3)[0x01] == 0.001953125f);
  CHECK(f8_values(DType::F8_E4M3)[0x38] == 1.0f);
  CHECK(f8_values(DType::F8_E5M2)[0x7B] == 57344.0f);
  CHECK(f8_values(DType::F8_E5M2)[0x01] == 0.0000152587890625f);
  CHECK(f8_values(DType::F8_E5M2)[0xBC] == -1.0f);
  CHECK(f8_values(DType::F8_E4M3FNUZ)[0x7F] == 240.0f);
  CHECK(f8_values(DType::F8_E4M3FNUZ)[0x40] == 1.0f);
  CHECK(f8_values(DType::F8_E5M2FNUZ)[0x7F] == 57344.0f);
  CHECK(f8_values(DType::F8_E5M2FNUZ)[0x40] == 1.0f);
  CHECK(f6_values(DType::F6_E2M3)[0x1F] == 7.5f);
  CHECK(f6_values(DType::F6_E3M2)[0x1F] == 28.0f);
  const float f4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int i = 0; i < 8; ++i) {
    CHECK(bits_of(f4_values()[i]) == bits_of(f4[i]));
    CHECK(bits_of(f4_values()[i + 8]) == bits_of(-f4[i]));
  }
  const float* e8m0 = f8_values(DType::F8_E8M0);
  for (int code = 0; code < 255; ++code)
    CHECK(static_cast<double>(e8m0[code]) == std::ldexp(1.0, code - 127));
  CHECK(bits_of(e8m0[255]) == 0x7FC00000u);
}

TEST_CASE("small floats are rounded to the nearest code, ties to even") {
  std::mt19937 random(20240607);
  for (const Case& c : kCases) {
    std::vector<float> inputs = {0.0f,    -0.0f,   kInf,     -kInf,  1e-40f,
                                 -1e-40f, 3.4e38f, -3.4e38f, 464.0f, 464.00003f};
    for (uint32_t code = 0; code < c.codes / 2; ++code) {
      // Every value, every midpoint to the next one, and the floats beside them.
      const double low = by_fields(code, c.exponent_bits, c.fraction_bits, c.bias);
      const double step =
          std::ldexp(1.0, std::max(static_cast<int>(code >> c.fraction_bits), 1) - c.bias - c.fraction_bits);
      for (double x : {low, low + step / 2}) {
        const float at = static_cast<float>(x);
        for (float y : {at, std::nextafter(at, kInf), std::nextafter(at, -kInf)}) {
          inputs.push_back(y);
          inputs.push_back(-y);
        }
      }
    }
    for (int i = 0; i < 2000; ++i) inputs.push_back(f32(static_cast<uint32_t>(random())));
    for (int i = 0; i < 2000; ++i)
      inputs.push_back(std::ldexp(static_cast<float>(random() % 4096), static_cast<int>(random() % 40) - 30));
    for (float x : inputs) {
      if (x != x) continue;
      for (Overflow overflow : {Overflow::kSpecial, Overflow::kSaturate}) {
        const uint32_t got = encode(c.dtype, x, overflow), want = expected_code(c, x, overflow);
        if (got != want) {
          INFO(dtype_name(c.dtype) << " x " << x << " bits " << std::hex << bits_of(x) << " got " << got
                                   << " want " << want);
          CHECK(got == want);
        }
      }
    }
    // Every code survives the way out and back, but the NaN codes that are not the one we write.
    for (uint32_t code = 0; code < c.codes; ++code) {
      const float value = values_of(c.dtype)[code];
      if (value == value) CHECK(encode(c.dtype, value, Overflow::kSpecial) == code);
    }
  }
}

TEST_CASE("NaN and overflow codes of small floats") {
  const float nan = f32(0x7FC00000), minus_nan = f32(0xFF800001);
  for (Overflow overflow : {Overflow::kSpecial, Overflow::kSaturate}) {
    CHECK(f8_from_f32(DType::F8_E4M3, nan, overflow) == 0x7F);
    CHECK(f8_from_f32(DType::F8_E4M3, minus_nan, overflow) == 0xFF);
    CHECK(f8_from_f32(DType::F8_E5M2, nan, overflow) == 0x7F);
    CHECK(f8_from_f32(DType::F8_E5M2, minus_nan, overflow) == 0xFF);
    CHECK(f8_from_f32(DType::F8_E4M3FNUZ, nan, overflow) == 0x80);
    CHECK(f8_from_f32(DType::F8_E5M2FNUZ, minus_nan, overflow) == 0x80);
  }
  CHECK(f8_from_f32(DType::F8_E4M3, 464.0f, Overflow::kSpecial) == 0x7E);
  CHECK(f8_from_f32(DType::F8_E4M3, std::nextafter(464.0f, kInf), Overflow::kSpecial) == 0x7F);
  CHECK(f8_from_f32(DType::F8_E4M3, -1e30f, Overflow::kSpecial) == 0xFF);
  CHECK(f8_from_f32(DType::F8_E4M3, -1e30f, Overflow::kSaturate) == 0xFE);
  CHECK(f8_from_f32(DType::F8_E5M2, 61440.0f, Overflow::kSpecial) == 0x7C);
  CHECK(f8_from_f32(DType::F8_E5M2, std::nextafter(61440.0f, 0.0f), Overflow::kSpecial) == 0x7B);
  CHECK(f8_from_f32(DType::F8_E4M3FNUZ, 248.0f, Overflow::kSpecial) == 0x80);
  CHECK(f8_from_f32(DType::F8_E4M3FNUZ, std::nextafter(248.0f, 0.0f), Overflow::kSpecial) == 0x7F);
  CHECK(f8_from_f32(DType::F8_E4M3FNUZ, -0.0f, Overflow::kSpecial) == 0x00);
  CHECK(f8_from_f32(DType::F8_E5M2FNUZ, -kInf, Overflow::kSaturate) == 0xFF);
  CHECK(f6_from_f32(DType::F6_E3M2, kInf) == 0x1F);
  CHECK(f6_from_f32(DType::F6_E2M3, nan) == 0x20);
  CHECK(f4_from_f32(-kInf) == 0x0F);
  CHECK(f4_from_f32(nan) == 0x08);
  CHECK(f4_from_f32(2.5f) == 0x04);
  CHECK(f4_from_f32(5.0f) == 0x06);
  CHECK(f4_from_f32(3.5f) == 0x06);
}

TEST_CASE("E8M0 takes the nearest power of two, ties upwards") {
  for (int code = 0; code < 255; ++code) {
    const float value = static_cast<float>(std::ldexp(1.0, code - 127));
    const float middle = static_cast<float>(std::ldexp(1.5, code - 127));
    CHECK(e8m0_from_f32(value) == code);
    CHECK(e8m0_from_f32(std::nextafter(middle, 0.0f)) == code);
    CHECK(e8m0_from_f32(middle) == code + 1);
  }
  CHECK(e8m0_from_f32(0.0f) == 0);
  CHECK(e8m0_from_f32(-0.0f) == 0);
  CHECK(e8m0_from_f32(1e-45f) == 0);
  CHECK(e8m0_from_f32(kInf) == 0xFF);
  CHECK(e8m0_from_f32(f32(0x7FC00000)) == 0xFF);
  CHECK(e8m0_from_f32(-1.0f) == 0xFF);
  CHECK(e8m0_from_f32(-1e-45f) == 0xFF);
}

TEST_CASE("F16 and BF16 decode by their fields, all codes") {
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<uint16_t>(code);
    const uint32_t magnitude = code & 0x7FFF, sign = (code & 0x8000) << 16;
    const float from_half = f32_from_f16(half);
    bool good = true;
    if (magnitude < 0x7C00) {
      good = bits_of(static_cast<double>(from_half)) == bits_of(by_fields(code, 5, 10, 15));
    } else if (magnitude == 0x7C00) {
      good = bits_of(from_half) == (sign | 0x7F800000);
    } else {
      good = bits_of(from_half) == (sign | 0x7FC00000 | (code & 0x3FF) << 13);
    }
    good = good && bits_of(f32_from_bf16(half)) == code << 16;
    if (!good) FAIL_CHECK("code " << code);
  }
}

TEST_CASE("F16 and BF16 are rounded to nearest, ties to even, around every value and midpoint") {
  for (uint32_t code = 0; code < 0x7C00; ++code) {
    // The step beyond 65504 is 65536, which stands for infinity.
    const double low = by_fields(code, 5, 10, 15);
    const double high = code == 0x7BFF ? 65536.0 : by_fields(code + 1, 5, 10, 15);
    const float middle = static_cast<float>((low + high) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    bool good = true;
    for (uint32_t sign : {0u, 0x8000u}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      good = good && f16_from_f32(s * static_cast<float>(low)) == (sign | code);
      good = good && f16_from_f32(s * middle) == (sign | even);
      good = good && f16_from_f32(s * std::nextafter(middle, 0.0f)) == (sign | code);
      good = good && f16_from_f32(s * std::nextafter(middle, kInf)) == (sign | (code + 1));
    }
    if (!good) FAIL_CHECK("F16 code " << code);
  }
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    const uint32_t low = code << 16, middle = low + 0x8000;
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    bool good = true;
    for (uint32_t sign : {0u, 0x8000u}) {
      const uint32_t s = sign << 16;
      good = good && bf16_from_f32(f32(s | low)) == (sign | code);
      good = good && bf16_from_f32(f32(s | middle)) == (sign | even);
      good = good && bf16_from_f32(f32(s | (middle - 1))) == (sign | code);
      good = good && bf16_from_f32(f32(s | (middle + 1))) == (sign | (code + 1));
    }
    if (!good) FAIL_CHECK("BF16 code " << code);
  }
}

TEST_CASE("special values between the larger floats") {
  CHECK(f16_from_f32(65520.0f) == 0x7C00);
  CHECK(f16_from_f32(std::nextafter(65520.0f, 0.0f)) == 0x7BFF);
  CHECK(f16_from_f32(kInf) == 0x7C00);
  CHECK(f16_from_f32(-kInf) == 0xFC00);
  CHECK(f16_from_f32(f32(0x7F800001)) == 0x7E00);
  CHECK(f16_from_f32(f32(0xFFABC000)) == (0xFE00 | (0x2BC000 >> 13)));
  CHECK(bf16_from_f32(f32(0x7F800001)) == 0x7FC0);
  CHECK(bf16_from_f32(f32(0xFFFFFFFF)) == 0xFFFF);
  CHECK(bf16_from_f32(f32(0x7F7F8000)) == 0x7F80);
  CHECK(bf16_from_f32(f32(0x7F7F7FFF)) == 0x7F7F);
  CHECK(bf16_from_f32(-kInf) == 0xFF80);
  CHECK(bits_of(f64_from_f32(f32(0xFF800001))) == 0xFFF8000020000000u);
  CHECK(bits_of(f64_from_f32(f32(0x7FC00000))) == 0x7FF8000000000000u);
  CHECK(bits_of(f64_from_f32(f32(0x00000001))) == bits_of(std::ldexp(1.0, -149)));
  CHECK(bits_of(f32_from_f64(tftf::bit_cast<double>(uint64_t{0x7FF0000000000001}))) == 0x7FC00000u);
  CHECK(bits_of(f32_from_f64(tftf::bit_cast<double>(uint64_t{0xFFFA000020000000}))) == 0xFFD00001u);
  CHECK(bits_of(f32_from_f64(-1e300)) == bits_of(-kInf));
  CHECK(bits_of(f32_from_f64(-0.0)) == 0x80000000u);
  CHECK(f32_from_f64(std::ldexp(1.0, -150)) == 0.0f);
  CHECK(f32_from_f64(std::ldexp(1.5, -150)) == std::ldexp(1.0f, -149));
}

TEST_CASE("elements of every width are found, sub-byte ones from the low bits up") {
  const uint8_t bytes[] = {0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F};
  const auto* data = reinterpret_cast<const std::byte*>(bytes);
  for (uint64_t i = 0; i < 14; ++i) CHECK(element_bits(DType::F4, data, i) == i + 1);
  // 0x654321 = 011001 010100 001100 100001
  const uint64_t six[] = {0x21, 0x0C, 0x14, 0x19};
  for (uint64_t i = 0; i < 4; ++i) CHECK(element_bits(DType::F6_E2M3, data, i) == six[i]);
  CHECK(element_bits(DType::U16, data, 1) == 0x8765);
  CHECK(element_bits(DType::F32, data, 1) == 0x0FEDCBA9);
  CHECK(element_bits(DType::C64, data, 0) == 0x0FEDCBA987654321u);
  CHECK(element_as_f64(DType::I8, data, 3) == -121);
  CHECK(element_as_f64(DType::U8, data, 3) == 135);
  CHECK(element_as_f64(DType::BOOL, data, 3) == 1);
  CHECK(element_as_f64(DType::F4, data, 0) == 0.5);
  CHECK(element_as_f64(DType::F6_E3M2, data, 0) == -f6_values(DType::F6_E3M2)[1]);
  CHECK(element_as_f64(DType::I64, data, 0) == static_cast<double>(0x0FEDCBA987654321));
}
