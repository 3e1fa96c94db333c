// Products of low-rank factors, AVX2. A block of rows times one panel stays in registers over the whole rank;
// every element still adds its products one by one in the order of the rank index.
#include "simd/avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_begin.h"

namespace tftf::simd {
namespace {

struct F32Lanes {
  using Element = float;
  using Vector = __m256;
  static constexpr int kWidth = 8, kVectors = 2, kRows = 6;  // a panel is 2 vectors; 12 sums of 16 registers
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector all(float x) { return _mm256_set1_ps(x); }
  static Vector add_product(Vector sum, Vector a, Vector b) {
    return _mm256_add_ps(sum, _mm256_mul_ps(a, b));
  }
  static void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
};
struct F64Lanes {
  using Element = double;
  using Vector = __m256d;
  static constexpr int kWidth = 4, kVectors = 4, kRows = 3;
  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector load(const double* from) { return _mm256_loadu_pd(from); }
  static Vector all(double x) { return _mm256_set1_pd(x); }
  static Vector add_product(Vector sum, Vector a, Vector b) {
    return _mm256_add_pd(sum, _mm256_mul_pd(a, b));
  }
  static void store(double* to, Vector x) { _mm256_storeu_pd(to, x); }
};

// kRows rows from `row` on, columns begin..end of one panel.
template <class L, int kRows, class T = typename L::Element>
void panel_rows(const PanelProduct<T>& task, const T* panel, uint64_t row, T* out, uint64_t begin,
                uint64_t end) {
  typename L::Vector sum[kRows][L::kVectors];
  for (auto& line : sum)
    for (auto& part : line) part = L::zero();
  const T* b = task.b + row * task.b_stride;
  for (uint64_t k = 0; k < task.rank; ++k) {
    typename L::Vector a[L::kVectors];
    for (int v = 0; v < L::kVectors; ++v) a[v] = L::load(panel + 16 * k + L::kWidth * v);
    for (int i = 0; i < kRows; ++i) {
      const typename L::Vector factor = L::all(b[i * task.b_stride + k]);
      for (int v = 0; v < L::kVectors; ++v) sum[i][v] = L::add_product(sum[i][v], factor, a[v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    T* to = out + (row + static_cast<uint64_t>(i)) * task.out_stride;
    if (end - begin == 16) {
      for (int v = 0; v < L::kVectors; ++v) L::store(to + L::kWidth * v, sum[i][v]);
      continue;
    }
    T whole[16];
    for (int v = 0; v < L::kVectors; ++v) L::store(whole + L::kWidth * v, sum[i][v]);
    for (uint64_t j = begin; j < end; ++j) to[j - begin] = whole[j];
  }
}

template <class L, int kRows, class T = typename L::Element>
void last_rows(const PanelProduct<T>& task, const T* panel, uint64_t row, T* out, uint64_t begin,
               uint64_t end) {
  if constexpr (kRows > 0) {
    if (task.rows - row == kRows) return panel_rows<L, kRows>(task, panel, row, out, begin, end);
    last_rows<L, kRows - 1>(task, panel, row, out, begin, end);
  }
}

template <class L, class T = typename L::Element>
void product(const PanelProduct<T>& task) {
  for (uint64_t column = task.col_begin; column < task.col_end;) {
    const uint64_t panel_begin = column / 16 * 16;
    const uint64_t end = task.col_end - panel_begin < 16 ? task.col_end : panel_begin + 16;
    const T* panel = task.panels + panel_begin * task.rank;
    T* out = task.out + (column - task.col_begin);
    uint64_t row = 0;
    for (; row + L::kRows <= task.rows; row += L::kRows)
      panel_rows<L, L::kRows>(task, panel, row, out, column - panel_begin, end - panel_begin);
    last_rows<L, L::kRows - 1>(task, panel, row, out, column - panel_begin, end - panel_begin);
    column = end;
  }
}

}  // namespace

void avx2::product_f32(const PanelProduct<float>& task) noexcept { product<F32Lanes>(task); }
void avx2::product_f64(const PanelProduct<double>& task) noexcept { product<F64Lanes>(task); }

}  // namespace tftf::simd

#include "simd/avx2_end.h"
#endif
