// What the vector kernels (vector_*.h) need from NEON (64-bit ARM). For neon.cpp alone.
#pragma once

namespace tftf::simd {
namespace {

struct Vectors {
  using I = uint8x16_t;
  static constexpr uint64_t kBytes = 16;

  static I load(const std::byte* from) { return vld1q_u8(reinterpret_cast<const uint8_t*>(from)); }
  static void store(std::byte* to, I x) { vst1q_u8(reinterpret_cast<uint8_t*>(to), x); }
  static I zero() { return vdupq_n_u8(0); }
  static I both(I a, I b) { return vandq_u8(a, b); }
  static I either(I a, I b) { return vorrq_u8(a, b); }
  static I differing(I a, I b) { return veorq_u8(a, b); }
  static I without(I a, I mask) { return vbicq_u8(a, mask); }
  static I select(I mask, I yes, I no) { return vbslq_u8(mask, yes, no); }
  static bool any(I x) { return vmaxvq_u8(x) != 0; }

  struct Lanes8 {
    using Signed = int8_t;
    using Unsigned = uint8_t;
    static int8x16_t as(I x) { return vreinterpretq_s8_u8(x); }
    static I from(int8x16_t x) { return vreinterpretq_u8_s8(x); }
    static I all(int64_t x) { return vdupq_n_u8(static_cast<uint8_t>(x)); }
    static I equal(I a, I b) { return vceqq_u8(a, b); }
    static I greater(I a, I b) { return vcgtq_s8(as(a), as(b)); }
    static I smallest(I a, I b) { return from(vminq_s8(as(a), as(b))); }
    static I largest(I a, I b) { return from(vmaxq_s8(as(a), as(b))); }
    static I subtract(I a, I b) { return vsubq_u8(a, b); }
  };
  struct Lanes16 {
    using Signed = int16_t;
    using Unsigned = uint16_t;
    static int16x8_t as(I x) { return vreinterpretq_s16_u8(x); }
    static I from(int16x8_t x) { return vreinterpretq_u8_s16(x); }
    static I from(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
    static I all(int64_t x) { return from(vdupq_n_s16(static_cast<int16_t>(x))); }
    static I equal(I a, I b) { return from(vceqq_s16(as(a), as(b))); }
    static I greater(I a, I b) { return from(vcgtq_s16(as(a), as(b))); }
    static I smallest(I a, I b) { return from(vminq_s16(as(a), as(b))); }
    static I largest(I a, I b) { return from(vmaxq_s16(as(a), as(b))); }
    static I subtract(I a, I b) { return from(vsubq_s16(as(a), as(b))); }
  };
  struct Lanes32 {
    using Signed = int32_t;
    using Unsigned = uint32_t;
    static int32x4_t as(I x) { return vreinterpretq_s32_u8(x); }
    static I from(int32x4_t x) { return vreinterpretq_u8_s32(x); }
    static I from(uint32x4_t x) { return vreinterpretq_u8_u32(x); }
    static I all(int64_t x) { return from(vdupq_n_s32(static_cast<int32_t>(x))); }
    static I equal(I a, I b) { return from(vceqq_s32(as(a), as(b))); }
    static I greater(I a, I b) { return from(vcgtq_s32(as(a), as(b))); }
    static I smallest(I a, I b) { return from(vminq_s32(as(a), as(b))); }
    static I largest(I a, I b) { return from(vmaxq_s32(as(a), as(b))); }
    static I subtract(I a, I b) { return from(vsubq_s32(as(a), as(b))); }
  };
  struct Lanes64 {
    using Signed = int64_t;
    using Unsigned = uint64_t;
    static int64x2_t as(I x) { return vreinterpretq_s64_u8(x); }
    static I from(int64x2_t x) { return vreinterpretq_u8_s64(x); }
    static I from(uint64x2_t x) { return vreinterpretq_u8_u64(x); }
    static I all(int64_t x) { return from(vdupq_n_s64(x)); }
    static I equal(I a, I b) { return from(vceqq_s64(as(a), as(b))); }
    static I greater(I a, I b) { return from(vcgtq_s64(as(a), as(b))); }
    static I smallest(I a, I b) { return select(greater(a, b), b, a); }
    static I largest(I a, I b) { return select(greater(a, b), a, b); }
    static I subtract(I a, I b) { return from(vsubq_s64(as(a), as(b))); }
  };

  // Sixteen bytes, or eight values of 16 bits.
  struct Bytes {
    using V = uint8x16_t;
    static uint16x8_t wide(V x) { return vreinterpretq_u16_u8(x); }
    static V load(const void* from) { return vld1q_u8(static_cast<const uint8_t*>(from)); }
    static V load_half(const void* from) {
      return vcombine_u8(vld1_u8(static_cast<const uint8_t*>(from)), vdup_n_u8(0));
    }
    static void store(std::byte* to, V x) { vst1q_u8(reinterpret_cast<uint8_t*>(to), x); }
    static V low_nibbles(V x) { return vandq_u8(x, vdupq_n_u8(15)); }
    static V high_nibbles(V x) { return vshrq_n_u8(x, 4); }
    static V look_up(V table, V indices) { return vqtbl1q_u8(table, indices); }
    static V even(V a, V b) { return vuzp1q_u8(a, b); }
    static V odd(V a, V b) { return vuzp2q_u8(a, b); }
    static V zip_low(V a, V b) { return vzip1q_u8(a, b); }
    static V zip_high(V a, V b) { return vzip2q_u8(a, b); }
    static V zip_low_16(V a, V b) { return vreinterpretq_u8_u16(vzip1q_u16(wide(a), wide(b))); }
    static V zip_high_16(V a, V b) { return vreinterpretq_u8_u16(vzip2q_u16(wide(a), wide(b))); }
  };

  struct F32 {
    using Element = float;
    using V = float32x4_t;
    static constexpr int kWidth = 4, kRows = 6;  // kRows: rows of a product whose sums fit the registers
    static V all(float x) { return vdupq_n_f32(x); }
    static V load(const float* from) { return vld1q_f32(from); }
    static void store(float* to, V x) { vst1q_f32(to, x); }
    static V add(V a, V b) { return vaddq_f32(a, b); }
    static V multiply(V a, V b) { return vmulq_f32(a, b); }
    static V divide(V a, V b) { return vdivq_f32(a, b); }
    static I bits(V x) { return vreinterpretq_u8_f32(x); }
  };
  struct F64 {
    using Element = double;
    using V = float64x2_t;
    static constexpr int kWidth = 2, kRows = 2;
    static V all(double x) { return vdupq_n_f64(x); }
    static V load(const double* from) { return vld1q_f64(from); }
    static V load(const float* from) { return vcvt_f64_f32(vld1_f32(from)); }
    static void store(double* to, V x) { vst1q_f64(to, x); }
    static V add(V a, V b) { return vaddq_f64(a, b); }
    static V subtract(V a, V b) { return vsubq_f64(a, b); }
    static V multiply(V a, V b) { return vmulq_f64(a, b); }
    static I bits(V x) { return vreinterpretq_u8_f64(x); }
    static V from_bits(I x) { return vreinterpretq_f64_u8(x); }
  };

  // Sixteen F32, and how they come from and go to BF16, F16 and F32. Storing expects values that need no more
  // than rounding: none that is NaN, infinite or becomes infinite. FCVT treats NaN as f32_from_f16() does.
  struct Block {
    float32x4_t v[4];
  };
  template <DType kFrom>
  static Block load_block(const std::byte* from) {
    Block x;
    for (int pair = 0; pair < 2; ++pair) {
      if constexpr (kFrom == DType::F32) {
        x.v[2 * pair] = vreinterpretq_f32_u8(load(from + 32 * pair));
        x.v[2 * pair + 1] = vreinterpretq_f32_u8(load(from + 32 * pair + 16));
      } else if constexpr (kFrom == DType::F16) {
        widen_halves(load(from + 16 * pair), &x.v[2 * pair]);
      } else {
        const uint16x8_t codes = vreinterpretq_u16_u8(load(from + 16 * pair));
        x.v[2 * pair] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(codes), 16));
        x.v[2 * pair + 1] = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(codes), 16));
      }
    }
    return x;
  }
  template <DType kTo>
  static void store_block(std::byte* to, const Block& x) {
    for (int pair = 0; pair < 2; ++pair) {
      const float32x4_t a = x.v[2 * pair], b = x.v[2 * pair + 1];
      if constexpr (kTo == DType::F32) {
        store(to + 32 * pair, F32::bits(a));
        store(to + 32 * pair + 16, F32::bits(b));
      } else if constexpr (kTo == DType::F16) {
        store(to + 16 * pair, vreinterpretq_u8_f16(vcombine_f16(vcvt_f16_f32(a), vcvt_f16_f32(b))));
      } else {
        store(to + 16 * pair, vreinterpretq_u8_u16(vcombine_u16(round_bf16(a), round_bf16(b))));
      }
    }
  }

  // FP8: sixteen codes as values divided by a power of two, Fp8<kFrom>::kFactor; NaN codes give anything. A
  // code's fields are moved to those of an F16, which FCVT widens exactly, subnormals too.
  template <DType kFrom>
  static Block decode_block(const std::byte* codes) {
    const I x = load(codes);
    Block values;
    widen_halves(fields_of_f16<kFrom>(vmovl_u8(vget_low_u8(x))), &values.v[0]);
    widen_halves(fields_of_f16<kFrom>(vmovl_u8(vget_high_u8(x))), &values.v[2]);
    return values;
  }

 private:
  static void widen_halves(I codes, float32x4_t* to) {
    const float16x8_t half = vreinterpretq_f16_u8(codes);
    to[0] = vcvt_f32_f16(vget_low_f16(half));
    to[1] = vcvt_f32_f16(vget_high_f16(half));
  }
  static uint16x4_t round_bf16(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vshrn_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), last), 16);
  }
  template <DType kFrom>
  static I fields_of_f16(uint16x8_t x) {
    const uint16x8_t high = vshlq_n_u16(x, 8);
    if constexpr (kFrom == DType::F8_E5M2) return Lanes16::from(high);
    if constexpr (kFrom == DType::F8_E5M2FNUZ) {
      // Bias one higher than F16: an exponent step down, which for fields 0 and 1 means half the fraction.
      const uint16x8_t magnitude = vandq_u16(x, vdupq_n_u16(0x7F));
      const I normal = Lanes16::subtract(Lanes16::from(vshlq_n_u16(magnitude, 8)), Lanes16::all(0x400));
      const I small = Lanes16::from(vshlq_n_u16(magnitude, 7));
      return either(Lanes16::largest(normal, small), both(Lanes16::from(high), Lanes16::all(0x8000)));
    }
    const I moved = Lanes16::from(vshrq_n_s16(vreinterpretq_s16_u16(high), 1));
    return both(moved, Lanes16::all(0xBFFF));
  }
};

}  // namespace
}  // namespace tftf::simd
