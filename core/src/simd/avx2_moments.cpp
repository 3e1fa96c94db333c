// Sums in fixed order, AVX2: the 16 partial sums are four vectors of F64.
#include "simd/avx2.h"
#include "tftf/simd/cast.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_begin.h"

namespace tftf::simd {
namespace {

constexpr uint64_t kChunk = 512;  // elements, a multiple of the 16 partial sums

bool all_finite(const float* x, uint64_t count) {
  __m256i peak = _mm256_setzero_si256();
  for (uint64_t i = 0; i < count; i += 8) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
    peak = _mm256_max_epi32(peak, _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)));
  }
  const __m256i over = _mm256_cmpgt_epi32(peak, _mm256_set1_epi32(0x7F7FFFFF));
  return _mm256_testz_si256(over, over) != 0;
}
bool all_finite(const double* x, uint64_t count) {
  const __m256i exponent = _mm256_set1_epi64x(0x7FF0000000000000);
  __m256i special = _mm256_setzero_si256();
  for (uint64_t i = 0; i < count; i += 4) {
    const __m256i bits = _mm256_castpd_si256(_mm256_loadu_pd(x + i));
    special = _mm256_or_si256(special, _mm256_cmpeq_epi64(_mm256_and_si256(bits, exponent), exponent));
  }
  return _mm256_testz_si256(special, special) != 0;
}

__m256d load_4(const float* from) { return _mm256_cvtps_pd(_mm_loadu_ps(from)); }
__m256d load_4(const double* from) { return _mm256_loadu_pd(from); }

// Adds a chunk that begins at partial sum 0.
template <class T>
void add_chunk(const T* x, uint64_t count, Moments& into) {
  const DType dtype = sizeof(T) == 4 ? DType::F32 : DType::F64;
  uint64_t whole = count / 16 * 16;
  if (into.finite == 0 || !all_finite(x, whole)) whole = 0;
  const __m256d pivot = _mm256_set1_pd(into.pivot);
  __m256d sum[4], square[4];
  for (int part = 0; part < 4; ++part) {
    sum[part] = _mm256_loadu_pd(into.sum + 4 * part);
    square[part] = _mm256_loadu_pd(into.square + 4 * part);
  }
  for (uint64_t i = 0; i < whole; i += 16) {
    for (int part = 0; part < 4; ++part) {
      const __m256d d = _mm256_sub_pd(load_4(x + i + 4 * static_cast<uint64_t>(part)), pivot);
      sum[part] = _mm256_add_pd(sum[part], d);
      square[part] = _mm256_add_pd(square[part], _mm256_mul_pd(d, d));
    }
  }
  for (int part = 0; part < 4; ++part) {
    _mm256_storeu_pd(into.sum + 4 * part, sum[part]);
    _mm256_storeu_pd(into.square + 4 * part, square[part]);
  }
  into.finite += whole;
  scalar::moments(dtype, reinterpret_cast<const std::byte*>(x + whole), 0, count - whole, into);
}

template <class T>
void add_run(DType dtype, const std::byte* data, uint64_t count, Moments& into) {
  constexpr DType kTarget = sizeof(T) == 4 ? DType::F32 : DType::F64;
  T values[kChunk];
  for (uint64_t done = 0; done < count; done += kChunk) {
    const uint64_t length = count - done < kChunk ? count - done : kChunk;
    cast(kAvx2, dtype, kTarget, data + done * dtype_info(dtype).bits / 8,
         reinterpret_cast<std::byte*>(values), length);
    add_chunk(values, length, into);
  }
}

}  // namespace

void avx2::moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count,
                   Moments& into) noexcept {
  if (first % 16 != 0) return scalar::moments(dtype, data, first, count, into);
  switch (dtype) {
    case DType::F64:
    case DType::I64:
    case DType::U64:
    case DType::I32:
    case DType::U32:
      return add_run<double>(dtype, data, count, into);
    default:
      return add_run<float>(dtype, data, count, into);  // exact in F32
  }
}

}  // namespace tftf::simd

#include "simd/avx2_end.h"
#endif
