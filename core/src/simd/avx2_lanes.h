// Integer lanes of 8, 16, 32 and 64 bits for the AVX2 data pass. Include inside the region of avx2_begin.h
// only.
#pragma once

namespace tftf::simd {
namespace {

struct Lanes8 {
  static constexpr int kBits = 8, kCount = 32;
  static __m256i all(int64_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  static __m256i equal(__m256i a, __m256i b) { return _mm256_cmpeq_epi8(a, b); }
  static __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi8(a, b); }
  static __m256i smallest(__m256i a, __m256i b) { return _mm256_min_epi8(a, b); }
  static __m256i largest(__m256i a, __m256i b) { return _mm256_max_epi8(a, b); }
  static __m256i subtract(__m256i a, __m256i b) { return _mm256_sub_epi8(a, b); }
  using Signed = int8_t;
  using Unsigned = uint8_t;
};
struct Lanes16 {
  static constexpr int kBits = 16, kCount = 16;
  static __m256i all(int64_t x) { return _mm256_set1_epi16(static_cast<short>(x)); }
  static __m256i equal(__m256i a, __m256i b) { return _mm256_cmpeq_epi16(a, b); }
  static __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi16(a, b); }
  static __m256i smallest(__m256i a, __m256i b) { return _mm256_min_epi16(a, b); }
  static __m256i largest(__m256i a, __m256i b) { return _mm256_max_epi16(a, b); }
  static __m256i subtract(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
  using Signed = int16_t;
  using Unsigned = uint16_t;
};
struct Lanes32 {
  static constexpr int kBits = 32, kCount = 8;
  static __m256i all(int64_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static __m256i equal(__m256i a, __m256i b) { return _mm256_cmpeq_epi32(a, b); }
  static __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi32(a, b); }
  static __m256i smallest(__m256i a, __m256i b) { return _mm256_min_epi32(a, b); }
  static __m256i largest(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
  static __m256i subtract(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
  using Signed = int32_t;
  using Unsigned = uint32_t;
};
struct Lanes64 {
  static constexpr int kBits = 64, kCount = 4;
  static __m256i all(int64_t x) { return _mm256_set1_epi64x(x); }
  static __m256i equal(__m256i a, __m256i b) { return _mm256_cmpeq_epi64(a, b); }
  static __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi64(a, b); }
  static __m256i smallest(__m256i a, __m256i b) { return _mm256_blendv_epi8(a, b, greater(a, b)); }
  static __m256i largest(__m256i a, __m256i b) { return _mm256_blendv_epi8(b, a, greater(a, b)); }
  static __m256i subtract(__m256i a, __m256i b) { return _mm256_sub_epi64(a, b); }
  using Signed = int64_t;
  using Unsigned = uint64_t;
};

template <class L>
uint64_t sum_lanes(__m256i counts) {
  typename L::Unsigned lanes[L::kCount];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), counts);
  uint64_t sum = 0;
  for (typename L::Unsigned lane : lanes) sum += lane;
  return sum;
}
template <class L>
int64_t smallest_lane(__m256i keys) {
  typename L::Signed lanes[L::kCount];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), keys);
  int64_t best = lanes[0];
  for (typename L::Signed lane : lanes) best = lane < best ? lane : best;
  return best;
}
template <class L>
int64_t largest_lane(__m256i keys) {
  typename L::Signed lanes[L::kCount];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), keys);
  int64_t best = lanes[0];
  for (typename L::Signed lane : lanes) best = lane > best ? lane : best;
  return best;
}

}  // namespace
}  // namespace tftf::simd
