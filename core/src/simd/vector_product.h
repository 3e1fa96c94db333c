// Products of low-rank factors over vectors. A block of rows times one panel stays in registers over the
// whole rank; every element still adds its products one by one in the order of the rank index. Include after
// an instruction set's vectors.
#pragma once

namespace tftf::simd {
namespace {

// kRows rows from `row` on, columns begin..end of one panel; F is Vectors::F32 or F64.
template <class F, int kRows, class T = typename F::Element>
void panel_rows(const PanelProduct<T>& task, const T* panel, uint64_t row, T* out, uint64_t begin,
                uint64_t end) {
  constexpr int kVectors = 16 / F::kWidth;
  typename F::V sum[kRows][kVectors];
  for (auto& line : sum)
    for (auto& part : line) part = F::all(0);
  const T* b = task.b + row * task.b_stride;
  for (uint64_t k = 0; k < task.rank; ++k) {
    typename F::V a[kVectors];
    for (int v = 0; v < kVectors; ++v) a[v] = F::load(panel + 16 * k + static_cast<uint64_t>(F::kWidth * v));
    for (int i = 0; i < kRows; ++i) {
      const typename F::V factor = F::all(b[static_cast<uint64_t>(i) * task.b_stride + k]);
      for (int v = 0; v < kVectors; ++v) sum[i][v] = F::add(sum[i][v], F::multiply(factor, a[v]));
    }
  }
  for (int i = 0; i < kRows; ++i) {
    T* to = out + (row + static_cast<uint64_t>(i)) * task.out_stride;
    if (end - begin == 16) {
      for (int v = 0; v < kVectors; ++v) F::store(to + F::kWidth * v, sum[i][v]);
      continue;
    }
    T whole[16];
    for (int v = 0; v < kVectors; ++v) F::store(whole + F::kWidth * v, sum[i][v]);
    for (uint64_t j = begin; j < end; ++j) to[j - begin] = whole[j];
  }
}

// The rows that do not fill a block: fewer than kRows + 1.
template <class F, int kRows, class T = typename F::Element>
void last_rows(const PanelProduct<T>& task, const T* panel, uint64_t row, T* out, uint64_t begin,
               uint64_t end) {
  if constexpr (kRows > 0) {
    if (task.rows - row == kRows) return panel_rows<F, kRows>(task, panel, row, out, begin, end);
    last_rows<F, kRows - 1>(task, panel, row, out, begin, end);
  }
}

template <class F, class T = typename F::Element>
void product(const PanelProduct<T>& task) noexcept {
  for (uint64_t column = task.col_begin; column < task.col_end;) {
    const uint64_t first = column / 16 * 16;
    const uint64_t end = task.col_end - first < 16 ? task.col_end : first + 16;
    const T* panel = task.panels + first * task.rank;
    T* out = task.out + (column - task.col_begin);
    uint64_t row = 0;
    for (; row + F::kRows <= task.rows; row += F::kRows)
      panel_rows<F, F::kRows>(task, panel, row, out, column - first, end - first);
    last_rows<F, F::kRows - 1>(task, panel, row, out, column - first, end - first);
    column = end;
  }
}

// F64 weights.
uint64_t merge_f64(const std::byte* w, double s, const double* delta, std::byte* out,
                   uint64_t count) noexcept {
  using F = Vectors::F64;
  using L = Vectors::Lanes64;
  const F::V scale = F::all(s);
  const Vectors::I exponent = L::all(0x7FF0000000000000);
  uint64_t lost = 0, i = 0;
  for (; i + F::kWidth <= count; i += F::kWidth) {
    const F::V x = F::from_bits(Vectors::load(w + 8 * i));
    const Vectors::I y = F::bits(F::add(x, F::multiply(scale, F::load(delta + i))));
    if (Vectors::any(L::equal(Vectors::both(y, exponent), exponent))) {
      lost += scalar::merge_f64(w + 8 * i, s, delta + i, out + 8 * i, F::kWidth);
    } else {
      Vectors::store(out + 8 * i, y);
    }
  }
  return lost + scalar::merge_f64(w + 8 * i, s, delta + i, out + 8 * i, count - i);
}

}  // namespace
}  // namespace tftf::simd
