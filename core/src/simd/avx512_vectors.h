// What products of low-rank factors need from AVX-512. For avx512.cpp alone, which is compiled for it.
#pragma once

namespace tftf::simd {
namespace {

struct WideVectors {
  struct F32 {
    using Element = float;
    using V = __m512;
    static constexpr int kWidth = 16, kRows = 12;  // kRows: rows of a product whose sums fit the registers
    static V all(float x) { return _mm512_set1_ps(x); }
    static V load(const float* from) { return _mm512_loadu_ps(from); }
    static void store(float* to, V x) { _mm512_storeu_ps(to, x); }
    static V add(V a, V b) { return _mm512_add_ps(a, b); }
    static V multiply(V a, V b) { return _mm512_mul_ps(a, b); }
  };
  struct F64 {
    using Element = double;
    using V = __m512d;
    static constexpr int kWidth = 8, kRows = 12;
    static V all(double x) { return _mm512_set1_pd(x); }
    static V load(const double* from) { return _mm512_loadu_pd(from); }
    static void store(double* to, V x) { _mm512_storeu_pd(to, x); }
    static V add(V a, V b) { return _mm512_add_pd(a, b); }
    static V multiply(V a, V b) { return _mm512_mul_pd(a, b); }
  };
};

}  // namespace
}  // namespace tftf::simd
