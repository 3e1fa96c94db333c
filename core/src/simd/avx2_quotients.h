// The way to codes over AVX2, as scalar_quotients.cpp has it. For avx2.cpp alone.
#pragma once

#include "simd/convert.h"

namespace tftf::simd {
namespace {

// No NaN: the kernels that use it are given finite values.
template <DType kType>
__m256 rounded(__m256 x) {
  if constexpr (kType == DType::BF16) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last);
    return _mm256_castsi256_ps(_mm256_and_si256(sum, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
  } else if constexpr (kType == DType::F16) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  } else {
    return x;
  }
}

template <DType kType>
void quotients_of(const QuotientRun& run, const float* x, uint64_t count, float* out) {
  const __m256 scale = _mm256_set1_ps(run.scale), zero = _mm256_set1_ps(run.zero);
  const __m256 lowest = _mm256_set1_ps(run.lowest), highest = _mm256_set1_ps(run.highest);
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 y = rounded<kType>(_mm256_div_ps(_mm256_loadu_ps(x + i), scale));
    y = rounded<kType>(_mm256_add_ps(y, zero));
    _mm256_storeu_ps(out + i, _mm256_min_ps(_mm256_max_ps(y, lowest), highest));
  }
  scalar::quotients(run, x + i, count - i, out + i);
}

void quotients(const QuotientRun& run, const float* x, uint64_t count, float* out) noexcept {
  if (run.type == DType::BF16) return quotients_of<DType::BF16>(run, x, count, out);
  if (run.type == DType::F16) return quotients_of<DType::F16>(run, x, count, out);
  quotients_of<DType::F32>(run, x, count, out);
}

void quantize_e2m1(const float* x, uint64_t count, std::byte* out) noexcept {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  const auto code = [magnitude](const float* from) {
    const __m256 y = _mm256_loadu_ps(from), m = _mm256_and_ps(y, magnitude);
    const auto past = [m](float limit) {
      return _mm256_castps_si256(_mm256_cmp_ps(m, _mm256_set1_ps(limit), _CMP_GT_OQ));
    };
    const auto from_on = [m](float limit) {
      return _mm256_castps_si256(_mm256_cmp_ps(m, _mm256_set1_ps(limit), _CMP_GE_OQ));
    };
    // Every true comparison is -1.
    const __m256i low = _mm256_add_epi32(_mm256_add_epi32(past(0.25f), from_on(0.75f)),
                                         _mm256_add_epi32(past(1.25f), from_on(1.75f)));
    const __m256i high = _mm256_add_epi32(_mm256_add_epi32(past(2.5f), from_on(3.5f)), past(5.0f));
    const __m256i negative = _mm256_castps_si256(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_LT_OQ));
    return _mm256_sub_epi32(_mm256_and_si256(negative, _mm256_set1_epi32(8)), _mm256_add_epi32(low, high));
  };
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i places = _mm256_set1_epi16(0x1001);  // the even code times 1, the odd one times 16
  uint64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i words = _mm256_packs_epi32(code(x + i), code(x + i + 8));
    const __m256i more = _mm256_packs_epi32(code(x + i + 16), code(x + i + 24));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, more), order);
    const __m256i pairs = _mm256_maddubs_epi16(bytes, places);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i / 2), _mm256_castsi256_si128(packed));
  }
  scalar::quantize_e2m1(x + i, count - i, out + i / 2);
}

}  // namespace
}  // namespace tftf::simd
