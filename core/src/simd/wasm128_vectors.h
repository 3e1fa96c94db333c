// What the vector kernels (vector_*.h) need from WebAssembly SIMD. There are no half-precision instructions,
// so F16 is taken apart in integers, and FP8 goes through code_table.h, which wins by measurement.
#pragma once

namespace tftf::simd {
namespace {

struct Vectors {
  using I = v128_t;
  static constexpr uint64_t kBytes = 16;

  static I load(const std::byte* from) { return wasm_v128_load(from); }
  static void store(std::byte* to, I x) { wasm_v128_store(to, x); }
  static I zero() { return wasm_i32x4_const_splat(0); }
  static I both(I a, I b) { return wasm_v128_and(a, b); }
  static I either(I a, I b) { return wasm_v128_or(a, b); }
  static I differing(I a, I b) { return wasm_v128_xor(a, b); }
  static I without(I a, I mask) { return wasm_v128_andnot(a, mask); }
  static I select(I mask, I yes, I no) { return wasm_v128_bitselect(yes, no, mask); }
  static bool any(I x) { return wasm_v128_any_true(x); }

  struct Lanes8 {
    using Signed = int8_t;
    using Unsigned = uint8_t;
    static I all(int64_t x) { return wasm_i8x16_splat(static_cast<int8_t>(x)); }
    static I equal(I a, I b) { return wasm_i8x16_eq(a, b); }
    static I greater(I a, I b) { return wasm_i8x16_gt(a, b); }
    static I smallest(I a, I b) { return wasm_i8x16_min(a, b); }
    static I largest(I a, I b) { return wasm_i8x16_max(a, b); }
    static I subtract(I a, I b) { return wasm_i8x16_sub(a, b); }
  };
  struct Lanes16 {
    using Signed = int16_t;
    using Unsigned = uint16_t;
    static I all(int64_t x) { return wasm_i16x8_splat(static_cast<int16_t>(x)); }
    static I equal(I a, I b) { return wasm_i16x8_eq(a, b); }
    static I greater(I a, I b) { return wasm_i16x8_gt(a, b); }
    static I smallest(I a, I b) { return wasm_i16x8_min(a, b); }
    static I largest(I a, I b) { return wasm_i16x8_max(a, b); }
    static I subtract(I a, I b) { return wasm_i16x8_sub(a, b); }
  };
  struct Lanes32 {
    using Signed = int32_t;
    using Unsigned = uint32_t;
    static I all(int64_t x) { return wasm_i32x4_splat(static_cast<int32_t>(x)); }
    static I equal(I a, I b) { return wasm_i32x4_eq(a, b); }
    static I greater(I a, I b) { return wasm_i32x4_gt(a, b); }
    static I smallest(I a, I b) { return wasm_i32x4_min(a, b); }
    static I largest(I a, I b) { return wasm_i32x4_max(a, b); }
    static I subtract(I a, I b) { return wasm_i32x4_sub(a, b); }
  };
  struct Lanes64 {
    using Signed = int64_t;
    using Unsigned = uint64_t;
    static I all(int64_t x) { return wasm_i64x2_splat(x); }
    static I equal(I a, I b) { return wasm_i64x2_eq(a, b); }
    static I greater(I a, I b) { return wasm_i64x2_gt(a, b); }
    static I smallest(I a, I b) { return select(greater(a, b), b, a); }
    static I largest(I a, I b) { return select(greater(a, b), a, b); }
    static I subtract(I a, I b) { return wasm_i64x2_sub(a, b); }
  };

  // Sixteen bytes, or eight values of 16 bits.
  struct Bytes {
    using V = v128_t;
    static V load(const void* from) { return wasm_v128_load(from); }
    static V load_half(const void* from) { return wasm_v128_load64_zero(from); }
    static void store(std::byte* to, V x) { wasm_v128_store(to, x); }
    static V low_nibbles(V x) { return wasm_v128_and(x, wasm_i8x16_splat(15)); }
    static V high_nibbles(V x) { return wasm_u8x16_shr(x, 4); }
    static V look_up(V table, V indices) { return wasm_i8x16_swizzle(table, indices); }
    static V even(V a, V b) {
      return wasm_i8x16_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    }
    static V odd(V a, V b) {
      return wasm_i8x16_shuffle(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    }
    static V zip_low(V a, V b) {
      return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    }
    static V zip_high(V a, V b) {
      return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    static V zip_low_16(V a, V b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
    static V zip_high_16(V a, V b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
  };

  struct F32 {
    using Element = float;
    using V = v128_t;
    static constexpr int kWidth = 4, kRows = 2;
    static V all(float x) { return wasm_f32x4_splat(x); }
    static V load(const float* from) { return wasm_v128_load(from); }
    static void store(float* to, V x) { wasm_v128_store(to, x); }
    static V add(V a, V b) { return wasm_f32x4_add(a, b); }
    static V multiply(V a, V b) { return wasm_f32x4_mul(a, b); }
    static I bits(V x) { return x; }
  };
  struct F64 {
    using Element = double;
    using V = v128_t;
    static constexpr int kWidth = 2, kRows = 2;
    static V all(double x) { return wasm_f64x2_splat(x); }
    static V load(const double* from) { return wasm_v128_load(from); }
    static V load(const float* from) { return wasm_f64x2_promote_low_f32x4(wasm_v128_load64_zero(from)); }
    static void store(double* to, V x) { wasm_v128_store(to, x); }
    static V add(V a, V b) { return wasm_f64x2_add(a, b); }
    static V subtract(V a, V b) { return wasm_f64x2_sub(a, b); }
    static V multiply(V a, V b) { return wasm_f64x2_mul(a, b); }
    static I bits(V x) { return x; }
    static V from_bits(I x) { return x; }
  };

  // Sixteen F32, and how they come from and go to BF16, F16 and F32. Storing expects values that need no more
  // than rounding: none that is NaN, infinite or becomes infinite.
  struct Block {
    v128_t v[4];
  };
  template <DType kFrom>
  static Block load_block(const std::byte* from) {
    Block x;
    if constexpr (kFrom == DType::F32) {
      for (int part = 0; part < 4; ++part) x.v[part] = load(from + 16 * part);
    } else {
      for (int pair = 0; pair < 2; ++pair) {
        const I codes = load(from + 16 * pair);
        x.v[2 * pair] = wasm_i16x8_shuffle(zero(), codes, 0, 8, 1, 9, 2, 10, 3, 11);
        x.v[2 * pair + 1] = wasm_i16x8_shuffle(zero(), codes, 4, 12, 5, 13, 6, 14, 7, 15);
      }
      if constexpr (kFrom == DType::F16)
        for (I& part : x.v) part = widen_f16(part);
    }
    return x;
  }
  template <DType kTo>
  static void store_block(std::byte* to, const Block& x) {
    if constexpr (kTo == DType::F32) {
      for (int part = 0; part < 4; ++part) store(to + 16 * part, x.v[part]);
    } else {
      I code[4];
      for (int part = 0; part < 4; ++part)
        code[part] = kTo == DType::BF16 ? round_bf16(x.v[part]) : round_f16(x.v[part]);
      // The 16 low bits of every code.
      store(to, wasm_i16x8_shuffle(code[0], code[1], 0, 2, 4, 6, 8, 10, 12, 14));
      store(to + 16, wasm_i16x8_shuffle(code[2], code[3], 0, 2, 4, 6, 8, 10, 12, 14));
    }
  }

 private:
  static I round_bf16(I x) {
    const I last = both(wasm_u32x4_shr(x, 16), Lanes32::all(1));
    return wasm_u32x4_shr(wasm_i32x4_add(wasm_i32x4_add(x, Lanes32::all(0x7FFF)), last), 16);
  }
  // As f16_from_f32(), below 65520.
  static I round_f16(I x) {
    const I sign = both(wasm_u32x4_shr(x, 16), Lanes32::all(0x8000));
    const I magnitude = both(x, Lanes32::all(0x7FFFFFFF));
    const I last = both(wasm_u32x4_shr(magnitude, 13), Lanes32::all(1));
    const I rounded = wasm_i32x4_add(wasm_i32x4_add(magnitude, Lanes32::all(0xFFF - 0x38000000)), last);
    const I small =
        wasm_i32x4_sub(wasm_f32x4_add(magnitude, wasm_f32x4_splat(0.5f)), Lanes32::all(0x3F000000));
    const I is_small = Lanes32::greater(Lanes32::all(0x38800000), magnitude);
    return either(sign, select(is_small, small, wasm_u32x4_shr(rounded, 13)));
  }
  // As f32_from_f16(); the codes in the high halves of the lanes. (With zero-extended codes clang 14 shrinks
  // the comparisons to vectors of four 16-bit lanes, which it then does one by one.)
  static I widen_f16(I codes) {
    const I sign = both(codes, Lanes32::all(0x80000000));
    const I magnitude = both(codes, Lanes32::all(0x7FFF0000));
    // Subnormals are multiples of 2^-24, that is of the last bit of numbers in [0.5, 1).
    const I normal = wasm_i32x4_add(wasm_u32x4_shr(magnitude, 3), Lanes32::all(112 << 23));
    const I half_more = either(wasm_u32x4_shr(magnitude, 16), Lanes32::all(0x3F000000));
    const I small = wasm_f32x4_sub(half_more, wasm_f32x4_splat(0.5f));
    const I x = select(Lanes32::greater(Lanes32::all(0x04000000), magnitude), small, normal);
    // Infinity and NaN: the largest exponent, and the quiet bit when there is a fraction.
    const I special = Lanes32::greater(magnitude, Lanes32::all(0x7BFFFFFF));
    const I quiet = both(Lanes32::greater(magnitude, Lanes32::all(0x7C000000)), Lanes32::all(0x00400000));
    return either(either(sign, x), both(special, either(quiet, Lanes32::all(0x7F800000))));
  }
};

}  // namespace
}  // namespace tftf::simd
