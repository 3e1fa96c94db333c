// The AVX2 table: conversions, merges and sums. What is rare (NaN, infinities, overflow, the last elements of
// a run) goes to the scalar kernels, sixteen elements at a time, so the fast loops only have to notice it.
#include "simd/avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_begin.h"

namespace tftf::simd {
namespace {

__m256i load(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
__m128i load_half(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store(std::byte* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
void store(std::byte* to, __m256 x) { store(to, _mm256_castps_si256(x)); }
void store_half(std::byte* to, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); }

__m256i magnitude(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi32(0x7FFFFFFF)); }
// Whether any of the 16 F32 has a magnitude of at least `limit` (bits).
bool any_from(__m256i a, __m256i b, int limit) {
  const __m256i largest = _mm256_max_epi32(magnitude(a), magnitude(b));
  const __m256i over = _mm256_cmpgt_epi32(largest, _mm256_set1_epi32(limit - 1));
  return _mm256_testz_si256(over, over) == 0;
}

// Smallest magnitudes that need more than plain rounding: what becomes infinite, is infinite or is NaN.
constexpr int kBf16Limit = 0x7F7F8000, kF16Limit = 0x477FF000, kF32Limit = 0x7F800000;

// 16 F32 to BF16, none of them NaN.
__m256i round_bf16(__m256i a, __m256i b) {
  const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7FFF);
  a = _mm256_add_epi32(_mm256_add_epi32(a, half), _mm256_and_si256(_mm256_srli_epi32(a, 16), one));
  b = _mm256_add_epi32(_mm256_add_epi32(b, half), _mm256_and_si256(_mm256_srli_epi32(b, 16), one));
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
  return _mm256_permute4x64_epi64(packed, 0xD8);
}
__m128i round_f16(__m256i a) {
  return _mm256_cvtps_ph(_mm256_castsi256_ps(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void bf16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    store(out + 4 * i, _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(in + 2 * i)), 16));
    store(out + 4 * i + 32, _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(in + 2 * i + 16)), 16));
  }
  scalar::bf16_to_f32(in + 2 * i, out + 4 * i, count - i);
}

uint64_t f32_to_bf16(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t overflowed = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i a = load(in + 4 * i), b = load(in + 4 * i + 32);
    if (any_from(a, b, kBf16Limit)) {
      overflowed += scalar::f32_to_bf16(in + 4 * i, out + 2 * i, 16);
    } else {
      store(out + 2 * i, round_bf16(a, b));
    }
  }
  return overflowed + scalar::f32_to_bf16(in + 4 * i, out + 2 * i, count - i);
}

// VCVTPH2PS keeps sign and payload of a NaN and makes it quiet, as f32_from_f16() does.
void f16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    store(out + 4 * i, _mm256_cvtph_ps(load_half(in + 2 * i)));
    store(out + 4 * i + 32, _mm256_cvtph_ps(load_half(in + 2 * i + 16)));
  }
  scalar::f16_to_f32(in + 2 * i, out + 4 * i, count - i);
}

uint64_t f32_to_f16(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t overflowed = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i a = load(in + 4 * i), b = load(in + 4 * i + 32);
    if (any_from(a, b, kF16Limit)) {
      overflowed += scalar::f32_to_f16(in + 4 * i, out + 2 * i, 16);
    } else {
      store_half(out + 2 * i, round_f16(a));
      store_half(out + 2 * i + 16, round_f16(b));
    }
  }
  return overflowed + scalar::f32_to_f16(in + 4 * i, out + 2 * i, count - i);
}

template <DType kFrom>
__m256 load_8(const std::byte* from) {
  if constexpr (kFrom == DType::BF16)
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(from)), 16));
  if constexpr (kFrom == DType::F16) return _mm256_cvtph_ps(load_half(from));
  return _mm256_castsi256_ps(load(from));
}

template <DType kFrom, DType kTo>
uint64_t merge_run(const std::byte* w, float s, const float* delta, std::byte* out, uint64_t count) {
  constexpr uint64_t kIn = kFrom == DType::F32 ? 4 : 2, kOut = kTo == DType::F32 ? 4 : 2;
  constexpr int kLimit = kTo == DType::BF16 ? kBf16Limit : kTo == DType::F16 ? kF16Limit : kF32Limit;
  const __m256 scale = _mm256_set1_ps(s);
  uint64_t lost = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256 step0 = _mm256_mul_ps(scale, _mm256_loadu_ps(delta + i));
    const __m256 step1 = _mm256_mul_ps(scale, _mm256_loadu_ps(delta + i + 8));
    const __m256i a = _mm256_castps_si256(_mm256_add_ps(load_8<kFrom>(w + kIn * i), step0));
    const __m256i b = _mm256_castps_si256(_mm256_add_ps(load_8<kFrom>(w + kIn * (i + 8)), step1));
    std::byte* to = out + kOut * i;
    if (any_from(a, b, kLimit)) {
      lost += scalar::merge_f32(kFrom, kTo, w + kIn * i, s, delta + i, to, 16);
    } else if constexpr (kTo == DType::BF16) {
      store(to, round_bf16(a, b));
    } else if constexpr (kTo == DType::F16) {
      store_half(to, round_f16(a));
      store_half(to + 16, round_f16(b));
    } else {
      store(to, a);
      store(to + 32, b);
    }
  }
  return lost + scalar::merge_f32(kFrom, kTo, w + kIn * i, s, delta + i, out + kOut * i, count - i);
}

template <DType kFrom>
uint64_t merge_from(DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                    uint64_t count) {
  if (to == DType::BF16) return merge_run<kFrom, DType::BF16>(w, s, delta, out, count);
  if (to == DType::F16) return merge_run<kFrom, DType::F16>(w, s, delta, out, count);
  return merge_run<kFrom, DType::F32>(w, s, delta, out, count);
}

uint64_t merge_f32(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                   uint64_t count) noexcept {
  if (from == DType::BF16) return merge_from<DType::BF16>(to, w, s, delta, out, count);
  if (from == DType::F16) return merge_from<DType::F16>(to, w, s, delta, out, count);
  return merge_from<DType::F32>(to, w, s, delta, out, count);
}

uint64_t merge_f64(const std::byte* w, double s, const double* delta, std::byte* out,
                   uint64_t count) noexcept {
  const __m256d scale = _mm256_set1_pd(s);
  const __m256i exponent = _mm256_set1_epi64x(0x7FF0000000000000);
  uint64_t lost = 0, i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256d x = _mm256_castsi256_pd(load(w + 8 * i));
    const __m256i y = _mm256_castpd_si256(_mm256_add_pd(x, _mm256_mul_pd(scale, _mm256_loadu_pd(delta + i))));
    const __m256i special = _mm256_cmpeq_epi64(_mm256_and_si256(y, exponent), exponent);
    if (_mm256_testz_si256(special, special) == 0) {
      lost += scalar::merge_f64(w + 8 * i, s, delta + i, out + 8 * i, 4);
    } else {
      store(out + 8 * i, y);
    }
  }
  return lost + scalar::merge_f64(w + 8 * i, s, delta + i, out + 8 * i, count - i);
}

double sum_squares_f32(const float* x, uint64_t count) noexcept {
  __m256d lanes[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int part = 0; part < 4; ++part) {
      const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * part));
      lanes[part] = _mm256_add_pd(lanes[part], _mm256_mul_pd(value, value));
    }
  }
  double sum[16];
  for (int part = 0; part < 4; ++part) _mm256_storeu_pd(sum + 4 * part, lanes[part]);
  for (uint64_t lane = 0; i < count; ++i, ++lane) {
    const double value = static_cast<double>(x[i]);
    sum[lane] += value * value;
  }
  for (int half = 8; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return sum[0];
}

}  // namespace

constinit const KernelTable kAvx2 = {
    "avx2",          bf16_to_f32,   f32_to_bf16,       f16_to_f32,        f32_to_f16, avx2::dequantize_f8,
    avx2::scan,      avx2::moments, avx2::product_f32, avx2::product_f64, merge_f32,  merge_f64,
    sum_squares_f32,
};

}  // namespace tftf::simd

#include "simd/avx2_end.h"
#endif
