// What the vector kernels (vector_*.h) need from AVX2 and F16C. For avx2.cpp alone, which is compiled for
// both.
#pragma once

namespace tftf::simd {
namespace {

struct Vectors {
  using I = __m256i;
  static constexpr uint64_t kBytes = 32;

  static I load(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const I*>(from)); }
  static void store(std::byte* to, I x) { _mm256_storeu_si256(reinterpret_cast<I*>(to), x); }
  static I zero() { return _mm256_setzero_si256(); }
  static I both(I a, I b) { return _mm256_and_si256(a, b); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  static I differing(I a, I b) { return _mm256_xor_si256(a, b); }
  static I without(I a, I mask) { return _mm256_andnot_si256(mask, a); }
  static I select(I mask, I yes, I no) { return _mm256_blendv_epi8(no, yes, mask); }
  static bool any(I x) { return _mm256_testz_si256(x, x) == 0; }

  struct Lanes8 {
    using Signed = int8_t;
    using Unsigned = uint8_t;
    static I all(int64_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
    static I equal(I a, I b) { return _mm256_cmpeq_epi8(a, b); }
    static I greater(I a, I b) { return _mm256_cmpgt_epi8(a, b); }
    static I smallest(I a, I b) { return _mm256_min_epi8(a, b); }
    static I largest(I a, I b) { return _mm256_max_epi8(a, b); }
    static I subtract(I a, I b) { return _mm256_sub_epi8(a, b); }
  };
  struct Lanes16 {
    using Signed = int16_t;
    using Unsigned = uint16_t;
    static I all(int64_t x) { return _mm256_set1_epi16(static_cast<short>(x)); }
    static I equal(I a, I b) { return _mm256_cmpeq_epi16(a, b); }
    static I greater(I a, I b) { return _mm256_cmpgt_epi16(a, b); }
    static I smallest(I a, I b) { return _mm256_min_epi16(a, b); }
    static I largest(I a, I b) { return _mm256_max_epi16(a, b); }
    static I subtract(I a, I b) { return _mm256_sub_epi16(a, b); }
  };
  struct Lanes32 {
    using Signed = int32_t;
    using Unsigned = uint32_t;
    static I all(int64_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
    static I equal(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
    static I greater(I a, I b) { return _mm256_cmpgt_epi32(a, b); }
    static I smallest(I a, I b) { return _mm256_min_epi32(a, b); }
    static I largest(I a, I b) { return _mm256_max_epi32(a, b); }
    static I subtract(I a, I b) { return _mm256_sub_epi32(a, b); }
  };
  struct Lanes64 {
    using Signed = int64_t;
    using Unsigned = uint64_t;
    static I all(int64_t x) { return _mm256_set1_epi64x(x); }
    static I equal(I a, I b) { return _mm256_cmpeq_epi64(a, b); }
    static I greater(I a, I b) { return _mm256_cmpgt_epi64(a, b); }
    static I smallest(I a, I b) { return select(greater(a, b), b, a); }
    static I largest(I a, I b) { return select(greater(a, b), a, b); }
    static I subtract(I a, I b) { return _mm256_sub_epi64(a, b); }
  };

  // Sixteen bytes, or eight values of 16 bits.
  struct Bytes {
    using V = __m128i;
    static V load(const void* from) { return _mm_loadu_si128(static_cast<const V*>(from)); }
    static V load_half(const void* from) { return _mm_loadl_epi64(static_cast<const V*>(from)); }
    static void store(std::byte* to, V x) { _mm_storeu_si128(reinterpret_cast<V*>(to), x); }
    static V low_nibbles(V x) { return _mm_and_si128(x, _mm_set1_epi8(15)); }
    static V high_nibbles(V x) { return low_nibbles(_mm_srli_epi16(x, 4)); }
    static V look_up(V table, V indices) { return _mm_shuffle_epi8(table, indices); }
    static V even(V a, V b) {
      const V mask = _mm_set1_epi16(0xFF);
      return _mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask));
    }
    static V odd(V a, V b) { return _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)); }
    static V zip_low(V a, V b) { return _mm_unpacklo_epi8(a, b); }
    static V zip_high(V a, V b) { return _mm_unpackhi_epi8(a, b); }
    static V zip_low_16(V a, V b) { return _mm_unpacklo_epi16(a, b); }
    static V zip_high_16(V a, V b) { return _mm_unpackhi_epi16(a, b); }
  };

  struct F32 {
    using Element = float;
    using V = __m256;
    static constexpr int kWidth = 8, kRows = 6;  // kRows: rows of a product whose sums fit the registers
    static V all(float x) { return _mm256_set1_ps(x); }
    static V load(const float* from) { return _mm256_loadu_ps(from); }
    static void store(float* to, V x) { _mm256_storeu_ps(to, x); }
    static V add(V a, V b) { return _mm256_add_ps(a, b); }
    static V multiply(V a, V b) { return _mm256_mul_ps(a, b); }
    static V divide(V a, V b) { return _mm256_div_ps(a, b); }
    static I bits(V x) { return _mm256_castps_si256(x); }
  };
  struct F64 {
    using Element = double;
    using V = __m256d;
    static constexpr int kWidth = 4, kRows = 3;
    static V all(double x) { return _mm256_set1_pd(x); }
    static V load(const double* from) { return _mm256_loadu_pd(from); }
    static V load(const float* from) { return _mm256_cvtps_pd(_mm_loadu_ps(from)); }
    static void store(double* to, V x) { _mm256_storeu_pd(to, x); }
    static V add(V a, V b) { return _mm256_add_pd(a, b); }
    static V subtract(V a, V b) { return _mm256_sub_pd(a, b); }
    static V multiply(V a, V b) { return _mm256_mul_pd(a, b); }
    static I bits(V x) { return _mm256_castpd_si256(x); }
    static V from_bits(I x) { return _mm256_castsi256_pd(x); }
  };

  // Sixteen F32, and how they come from and go to BF16, F16 and F32. Storing expects values that need no more
  // than rounding: none that is NaN, infinite or becomes infinite. VCVTPH2PS treats NaN as f32_from_f16()
  // does.
  struct Block {
    __m256 v[2];
  };
  template <DType kFrom>
  static Block load_block(const std::byte* from) {
    const auto* words = reinterpret_cast<const __m128i*>(from);
    if constexpr (kFrom == DType::BF16) {
      const I low = _mm256_cvtepu16_epi32(_mm_loadu_si128(words));
      const I high = _mm256_cvtepu16_epi32(_mm_loadu_si128(words + 1));
      return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
    } else if constexpr (kFrom == DType::F16) {
      return {_mm256_cvtph_ps(_mm_loadu_si128(words)), _mm256_cvtph_ps(_mm_loadu_si128(words + 1))};
    } else {
      return {_mm256_castsi256_ps(load(from)), _mm256_castsi256_ps(load(from + 32))};
    }
  }
  template <DType kTo>
  static void store_block(std::byte* to, Block x) {
    if constexpr (kTo == DType::BF16) {
      I a = round_to_even_16(F32::bits(x.v[0])), b = round_to_even_16(F32::bits(x.v[1]));
      const I packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
      store(to, _mm256_permute4x64_epi64(packed, 0xD8));
    } else if constexpr (kTo == DType::F16) {
      constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      auto* words = reinterpret_cast<__m128i*>(to);
      _mm_storeu_si128(words, _mm256_cvtps_ph(x.v[0], kNearest));
      _mm_storeu_si128(words + 1, _mm256_cvtps_ph(x.v[1], kNearest));
    } else {
      store(to, F32::bits(x.v[0]));
      store(to + 32, F32::bits(x.v[1]));
    }
  }

  // FP8: sixteen codes as values divided by a power of two, Fp8<kFrom>::kFactor; NaN codes give anything. A
  // code's fields are moved to those of an F16, which VCVTPH2PS widens exactly, subnormals too.
  template <DType kFrom>
  static Block decode_block(const std::byte* codes) {
    const I x = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const I high = _mm256_slli_epi16(x, 8);
    I half = high;  // E5M2
    if constexpr (kFrom == DType::F8_E5M2FNUZ) {
      // Bias one higher than F16: an exponent step down, which for fields 0 and 1 means half the fraction.
      const I magnitude = both(x, Lanes16::all(0x7F));
      const I normal = Lanes16::subtract(_mm256_slli_epi16(magnitude, 8), Lanes16::all(0x400));
      const I small = _mm256_slli_epi16(magnitude, 7);
      half = either(Lanes16::largest(normal, small), both(high, Lanes16::all(0x8000)));
    } else if constexpr (kFrom != DType::F8_E5M2) {
      half = both(_mm256_srai_epi16(high, 1), Lanes16::all(0xBFFF));
    }
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }

 private:
  static I round_to_even_16(I x) {
    const I last = both(_mm256_srli_epi32(x, 16), Lanes32::all(1));
    return _mm256_add_epi32(_mm256_add_epi32(x, Lanes32::all(0x7FFF)), last);
  }
};

}  // namespace
}  // namespace tftf::simd
