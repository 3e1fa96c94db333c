// FP8 with scales, AVX2. A code becomes an F16 by moving its fields (bias differences are a power of two,
// folded into the scale), VCVTPH2PS widens it exactly, also from subnormals, and one multiplication gives the
// scaled value.
#include "simd/avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_begin.h"

namespace tftf::simd {
namespace {

// Per source type: the factor between its value and that of the F16 made from it, and the largest scale with
// which no finite code can leave F16.
template <DType kFrom>
constexpr float kFactor = kFrom == DType::F8_E4M3       ? 256.0f
                          : kFrom == DType::F8_E4M3FNUZ ? 128.0f
                                                        : 1.0f;
template <DType kFrom>
constexpr float kLargest = kFrom == DType::F8_E4M3       ? 448.0f
                           : kFrom == DType::F8_E4M3FNUZ ? 240.0f
                                                         : 57344.0f;
// With scales (or reciprocals) up to this, no product with a code overflows F32 or BF16, and the factor is
// exact.
constexpr float kLargestScale = 1e33f, kSmallestDivisor = 1e-33f;

__m256i load(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
__m128i load_half(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

// 16 codes as F16 with their value divided by kFactor. NaN codes give anything.
template <DType kFrom>
__m256i halves(__m128i codes) {
  const __m256i x = _mm256_cvtepu8_epi16(codes);
  const __m256i high = _mm256_slli_epi16(x, 8);
  if constexpr (kFrom == DType::F8_E5M2) return high;
  if constexpr (kFrom == DType::F8_E5M2FNUZ) {
    // Bias one higher than F16: an exponent step down, which for fields 0 and 1 means half the fraction.
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(0x7F));
    const __m256i normal = _mm256_sub_epi16(_mm256_slli_epi16(magnitude, 8), _mm256_set1_epi16(0x400));
    const __m256i small = _mm256_slli_epi16(magnitude, 7);
    const __m256i sign = _mm256_and_si256(high, _mm256_set1_epi16(static_cast<short>(0x8000)));
    return _mm256_or_si256(_mm256_max_epi16(normal, small), sign);
  }
  return _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
}

// All ones where a code is NaN.
template <DType kFrom>
__m256i nan_mask(__m256i codes) {
  if constexpr (kFrom == DType::F8_E4M3)
    return _mm256_cmpeq_epi8(_mm256_or_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80))),
                             _mm256_set1_epi8(-1));
  if constexpr (kFrom == DType::F8_E5M2)
    return _mm256_cmpgt_epi8(_mm256_and_si256(codes, _mm256_set1_epi8(0x7F)), _mm256_set1_epi8(0x7C));
  return _mm256_cmpeq_epi8(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
}

// What multiplies (or divides) 8 decoded values: the factor is folded into a multiplier.
struct Scale {
  __m256 low, high;  // for elements 0..7 and 8..15
};
template <DType kFrom, bool kDivide>
__m256 scaled(__m128i half, __m256 scale) {
  const __m256 x = _mm256_cvtph_ps(half);
  if constexpr (kDivide) return _mm256_div_ps(_mm256_mul_ps(x, _mm256_set1_ps(kFactor<kFrom>)), scale);
  return _mm256_mul_ps(x, scale);
}

template <DType kFrom, DType kTo, bool kDivide>
void convert_16(__m128i codes, Scale scale, std::byte* out) {
  const __m256i half = halves<kFrom>(codes);
  const __m256 low = scaled<kFrom, kDivide>(_mm256_castsi256_si128(half), scale.low);
  const __m256 high = scaled<kFrom, kDivide>(_mm256_extracti128_si256(half, 1), scale.high);
  if constexpr (kTo == DType::F32) {
    _mm256_storeu_ps(reinterpret_cast<float*>(out), low);
    _mm256_storeu_ps(reinterpret_cast<float*>(out) + 8, high);
  } else if constexpr (kTo == DType::F16) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(low, kNearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out) + 1, _mm256_cvtps_ph(high, kNearest));
  } else {
    const __m256i one = _mm256_set1_epi32(1), middle = _mm256_set1_epi32(0x7FFF);
    __m256i a = _mm256_castps_si256(low), b = _mm256_castps_si256(high);
    a = _mm256_add_epi32(_mm256_add_epi32(a, middle), _mm256_and_si256(_mm256_srli_epi32(a, 16), one));
    b = _mm256_add_epi32(_mm256_add_epi32(b, middle), _mm256_and_si256(_mm256_srli_epi32(b, 16), one));
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute4x64_epi64(packed, 0xD8));
  }
}

// The same by the scalar kernel: `scales` has a value per element (stride 1) or one for all (stride 0).
uint64_t convert_slowly(DType from, DType to, bool divide, const float* scales, uint64_t stride,
                        const std::byte* codes, std::byte* out, uint64_t count) {
  ScaledRun run{};
  run.from = from;
  run.to = to;
  run.divide = divide;
  run.cols = run.count = count;
  run.block_cols = stride == 0 ? count : 1;
  run.scales = scales;
  run.col_stride = stride;
  return scalar::dequantize_f8(run, codes, out);
}

// Whether s is so that no code but NaN gives a NaN, and none becomes infinite in `to` that was finite.
template <DType kFrom, DType kTo, bool kDivide>
bool is_plain(float s) {
  const float size = __builtin_fabsf(s);
  if constexpr (kDivide) {
    const bool fits = kTo != DType::F16 || size * 65000.0f >= kLargest<kFrom>;
    return fits && size >= kSmallestDivisor && size <= kLargestScale;
  }
  const bool fits = kTo != DType::F16 || size * kLargest<kFrom> <= 65000.0f;
  // An infinity (E5M2) times zero is NaN.
  return fits && size <= kLargestScale && (kFrom != DType::F8_E5M2 || size != 0);
}

// A stretch with one scale.
template <DType kFrom, DType kTo, bool kDivide>
uint64_t convert_stretch(float s, const std::byte* codes, std::byte* out, uint64_t count) {
  constexpr uint64_t kOut = kTo == DType::F32 ? 4 : 2;
  if (count < 16 || !is_plain<kFrom, kTo, kDivide>(s))
    return convert_slowly(kFrom, kTo, kDivide, &s, 0, codes, out, count);
  const __m256 each = _mm256_set1_ps(kDivide ? s : s * kFactor<kFrom>);
  const Scale scale{each, each};
  __m256i nan = _mm256_setzero_si256();
  uint64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    nan = _mm256_or_si256(nan, nan_mask<kFrom>(load(codes + i)));
    convert_16<kFrom, kTo, kDivide>(load_half(codes + i), scale, out + kOut * i);
    convert_16<kFrom, kTo, kDivide>(load_half(codes + i + 16), scale, out + kOut * (i + 16));
  }
  // The rest, up to 31 elements, in steps of 16 that may overlap what is done.
  while (i < count) {
    const uint64_t at = i + 16 <= count ? i : count - 16;
    const __m128i last = load_half(codes + at);
    nan = _mm256_or_si256(nan, nan_mask<kFrom>(_mm256_broadcastsi128_si256(last)));
    convert_16<kFrom, kTo, kDivide>(last, scale, out + kOut * at);
    i = at + 16;
  }
  if (_mm256_testz_si256(nan, nan) == 0) return convert_slowly(kFrom, kTo, kDivide, &s, 0, codes, out, count);
  return 0;
}

// A stretch with a scale per element.
template <DType kFrom, DType kTo, bool kDivide>
uint64_t convert_columns(const float* scales, const std::byte* codes, std::byte* out, uint64_t count) {
  constexpr uint64_t kOut = kTo == DType::F32 ? 4 : 2;
  uint64_t overflowed = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    bool plain = true;
    for (uint64_t e = i; e < i + 16; ++e) plain &= is_plain<kFrom, kTo, kDivide>(scales[e]);
    const __m128i chunk = load_half(codes + i);
    const __m256i nan = nan_mask<kFrom>(_mm256_broadcastsi128_si256(chunk));
    if (!plain || _mm256_testz_si256(nan, nan) == 0) {
      overflowed += convert_slowly(kFrom, kTo, kDivide, scales + i, 1, codes + i, out + kOut * i, 16);
      continue;
    }
    const __m256 factor = _mm256_set1_ps(kDivide ? 1.0f : kFactor<kFrom>);
    const Scale scale{_mm256_mul_ps(_mm256_loadu_ps(scales + i), factor),
                      _mm256_mul_ps(_mm256_loadu_ps(scales + i + 8), factor)};
    convert_16<kFrom, kTo, kDivide>(chunk, scale, out + kOut * i);
  }
  if (i < count)
    overflowed += convert_slowly(kFrom, kTo, kDivide, scales + i, 1, codes + i, out + kOut * i, count - i);
  return overflowed;
}

template <DType kFrom, DType kTo, bool kDivide>
uint64_t convert_run(const ScaledRun& run, const std::byte* codes, std::byte* out) {
  constexpr uint64_t kOut = kTo == DType::F32 ? 4 : 2;
  uint64_t overflowed = 0;
  uint64_t row = run.first / run.cols, column = run.first % run.cols;
  for (uint64_t done = 0; done < run.count; ++row, column = 0) {
    const float* scales = run.scales + (row / run.block_rows) * run.row_stride;
    const uint64_t left = run.count - done, to_end = run.cols - column;
    const uint64_t end = column + (left < to_end ? left : to_end);
    if (run.block_cols == 1 && run.col_stride == 1) {
      overflowed += convert_columns<kFrom, kTo, kDivide>(scales + column, codes + done, out + kOut * done,
                                                         end - column);
      done += end - column;
      continue;
    }
    uint64_t block = column / run.block_cols, in_block = run.block_cols - column % run.block_cols;
    while (column < end) {
      const uint64_t length = in_block < end - column ? in_block : end - column;
      overflowed += convert_stretch<kFrom, kTo, kDivide>(scales[block * run.col_stride], codes + done,
                                                         out + kOut * done, length);
      done += length;
      column += length;
      in_block = run.block_cols;
      ++block;
    }
  }
  return overflowed;
}

template <DType kFrom, DType kTo>
uint64_t convert_to(const ScaledRun& run, const std::byte* codes, std::byte* out) {
  return run.divide ? convert_run<kFrom, kTo, true>(run, codes, out)
                    : convert_run<kFrom, kTo, false>(run, codes, out);
}
template <DType kFrom>
uint64_t convert_from(const ScaledRun& run, const std::byte* codes, std::byte* out) {
  if (run.to == DType::BF16) return convert_to<kFrom, DType::BF16>(run, codes, out);
  if (run.to == DType::F16) return convert_to<kFrom, DType::F16>(run, codes, out);
  return convert_to<kFrom, DType::F32>(run, codes, out);
}

}  // namespace

uint64_t avx2::dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept {
  switch (run.from) {
    case DType::F8_E5M2:
      return convert_from<DType::F8_E5M2>(run, codes, out);
    case DType::F8_E4M3FNUZ:
      return convert_from<DType::F8_E4M3FNUZ>(run, codes, out);
    case DType::F8_E5M2FNUZ:
      return convert_from<DType::F8_E5M2FNUZ>(run, codes, out);
    default:
      return convert_from<DType::F8_E4M3>(run, codes, out);
  }
}

}  // namespace tftf::simd

#include "simd/avx2_end.h"
#endif
