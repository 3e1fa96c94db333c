// Quantising over AVX2: the same steps as scalar_quantize.cpp, eight at a time. For avx2.cpp alone.
#pragma once

#include "simd/convert.h"
#include "simd/e8_lattice.h"

namespace tftf::simd {
namespace {

constexpr uint64_t kCodesAtOnce = 32;

uint32_t largest_magnitude(const float* x, uint64_t count) noexcept {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  const auto magnitude = [mask](const float* from) {
    return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(from)), mask);
  };
  __m256i a = _mm256_setzero_si256(), b = a;
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    a = _mm256_max_epi32(a, magnitude(x + i));
    b = _mm256_max_epi32(b, magnitude(x + i + 8));
  }
  alignas(32) uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_max_epi32(a, b));
  uint32_t largest = scalar::largest_magnitude(x + i, count - i);
  for (const uint32_t lane : lanes)
    if (lane > largest) largest = lane;
  return largest;
}

void quantize_i8(const float* x, uint64_t count, float scale, int32_t lowest, int32_t highest,
                 int8_t* codes) noexcept {
  const __m256 divisor = _mm256_set1_ps(scale);
  const __m256 whole =
      _mm256_set1_ps(12582912.0f);  // 1.5 * 2^23: the sum's low bits are the rounded quotient
  const __m256i low = _mm256_set1_epi32(lowest), high = _mm256_set1_epi32(highest);
  const auto code = [&](const float* from) {
    const __m256 sum = _mm256_add_ps(_mm256_div_ps(_mm256_loadu_ps(from), divisor), whole);
    const __m256i value = _mm256_sub_epi32(_mm256_castps_si256(sum), _mm256_castps_si256(whole));
    return _mm256_min_epi32(_mm256_max_epi32(value, low), high);
  };
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  uint64_t i = 0;
  for (; i + kCodesAtOnce <= count; i += kCodesAtOnce) {
    const __m256i words = _mm256_packs_epi32(code(x + i), code(x + i + 8));
    const __m256i more = _mm256_packs_epi32(code(x + i + 16), code(x + i + 24));
    const __m256i bytes = _mm256_packs_epi16(words, more);  // in fours, by halves of the registers
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), _mm256_permutevar8x32_epi32(bytes, order));
  }
  scalar::quantize_i8(x + i, count - i, scale, lowest, highest, codes + i);
}

void pack_nibbles(const int8_t* codes, uint64_t count, std::byte* out) noexcept {
  const __m256i offset = _mm256_set1_epi8(8);
  const __m256i places = _mm256_set1_epi16(0x1001);  // the even code times 1, the odd one times 16
  uint64_t i = 0;
  for (; i + kCodesAtOnce <= count; i += kCodesAtOnce) {
    const __m256i nibbles =
        _mm256_add_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i)), offset);
    const __m256i pairs = _mm256_maddubs_epi16(nibbles, places);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i / 2), _mm256_castsi256_si128(packed));
  }
  scalar::pack_nibbles(codes + i, count - i, out + i / 2);
}

void quantize_e4m3(const float* x, uint64_t count, float scale, std::byte* codes) noexcept {
  const __m256 divisor = _mm256_set1_ps(scale);
  const __m256 step = _mm256_set1_ps(16384.0f);
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF), most = _mm256_set1_epi32(0x43E00000);
  const __m256i smallest_normal = _mm256_set1_epi32(0x3C800000), one = _mm256_set1_epi32(1);
  const __m256i rebias = _mm256_set1_epi32(0x7FFFF - (120 << 23));
  const auto code = [&](const float* from) {
    const __m256i bits = _mm256_castps_si256(_mm256_div_ps(_mm256_loadu_ps(from), divisor));
    const __m256i magnitude = _mm256_min_epi32(_mm256_and_si256(bits, mask), most);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(magnitude, 20), one);
    const __m256i normal = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(magnitude, rebias), last), 20);
    const __m256i sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), step));
    const __m256i small = _mm256_sub_epi32(sum, _mm256_castps_si256(step));
    const __m256i is_small = _mm256_cmpgt_epi32(smallest_normal, magnitude);
    const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(bits, 31), 7);
    return _mm256_or_si256(sign, _mm256_blendv_epi8(normal, small, is_small));
  };
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  uint64_t i = 0;
  for (; i + kCodesAtOnce <= count; i += kCodesAtOnce) {
    const __m256i words = _mm256_packus_epi32(code(x + i), code(x + i + 8));
    const __m256i more = _mm256_packus_epi32(code(x + i + 16), code(x + i + 24));
    const __m256i bytes = _mm256_packus_epi16(words, more);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), _mm256_permutevar8x32_epi32(bytes, order));
  }
  scalar::quantize_e4m3(x + i, count - i, scale, codes + i);
}

// The eight fours side by side: every lane looks at the entries in the same order as the scalar search.
uint32_t search_e8(const float* magnitudes, float d, uint8_t* indices) noexcept {
  const E8Lattice& lattice = kE8Lattice;
  alignas(32) float component[4][8];
  for (size_t q = 0; q < 8; ++q)
    for (size_t i = 0; i < 4; ++i) component[i][q] = magnitudes[4 * q + i];
  __m256 m[4];
  for (size_t i = 0; i < 4; ++i) m[i] = _mm256_load_ps(component[i]);
  alignas(32) float dot[kE8Entries][8];
  alignas(32) float twice[kE8Entries][8];
  const __m256 two = _mm256_set1_ps(2.0f);
  for (size_t e = 0; e < kE8Entries; ++e) {
    const auto product = [&](size_t i) { return _mm256_mul_ps(m[i], _mm256_set1_ps(lattice.plane[i][e])); };
    const __m256 sum =
        _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(product(0), product(1)), product(2)), product(3));
    _mm256_store_ps(dot[e], sum);
    _mm256_store_ps(twice[e], _mm256_mul_ps(two, sum));
  }

  constexpr size_t kTogether = 4;  // sub-scales that share the loads
  uint32_t best = 0;
  float best_error = 0.0f;
  for (uint32_t first = 0; first < 16; first += kTogether) {
    float db[kTogether];
    __m256 scale[kTogether], smallest[kTogether];
    __m256i nearest[kTogether];
    for (size_t k = 0; k < kTogether; ++k) {
      const float step = d * (0.5f + static_cast<float>(first + k)) * 0.5f;
      db[k] = step < 1e-20f ? 1e-20f : step;
      scale[k] = _mm256_set1_ps(db[k]);
      nearest[k] = _mm256_setzero_si256();
      smallest[k] =
          _mm256_sub_ps(_mm256_mul_ps(scale[k], _mm256_set1_ps(lattice.norm[0])), _mm256_load_ps(twice[0]));
    }
    for (size_t e = 1; e < kE8Entries; ++e) {
      const __m256 norm = _mm256_set1_ps(lattice.norm[e]), double_dot = _mm256_load_ps(twice[e]);
      const __m256i entry = _mm256_set1_epi32(static_cast<int>(e));
      for (size_t k = 0; k < kTogether; ++k) {
        const __m256 cost = _mm256_sub_ps(_mm256_mul_ps(scale[k], norm), double_dot);
        const __m256 less = _mm256_cmp_ps(cost, smallest[k], _CMP_LT_OQ);
        smallest[k] = _mm256_blendv_ps(smallest[k], cost, less);
        nearest[k] = _mm256_blendv_epi8(nearest[k], entry, _mm256_castps_si256(less));
      }
    }
    for (size_t k = 0; k < kTogether; ++k) {
      alignas(32) uint32_t entry[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(entry), nearest[k]);
      float error = 0.0f;
      for (size_t q = 0; q < 8; ++q)
        error += db[k] * db[k] * lattice.norm[entry[q]] - 2.0f * db[k] * dot[entry[q]][q];
      const auto c = static_cast<uint32_t>(first + k);
      if (c != 0 && !(error < best_error)) continue;
      best = c;
      best_error = error;
      for (size_t q = 0; q < 8; ++q) indices[q] = static_cast<uint8_t>(entry[q]);
    }
  }
  return best;
}

}  // namespace
}  // namespace tftf::simd
