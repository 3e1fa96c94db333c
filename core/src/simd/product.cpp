#include "tftf/simd/product.h"

#include "tftf/simd/cast.h"

namespace tftf {
namespace {

constexpr uint64_t kProductChunk = 256;  // elements widened at a time while packing
constexpr uint64_t kStripRows = 12;  // strips of the merge: rows (a multiple of the kernels' row blocks) …
constexpr uint64_t kStripColumns = 64;  // … by columns, 3 KiB of f32
static_assert(kStripColumns % kPanelColumns == 0);

template <class T>
void pack(const KernelTable& kernels, DType dtype, const std::byte* a, bool transposed, uint64_t rank,
          uint64_t cols, T* panels) {
  constexpr DType kTarget = sizeof(T) == 4 ? DType::F32 : DType::F64;
  const uint64_t lines = transposed ? cols : rank;
  const uint64_t line_length = transposed ? rank : cols;
  T values[kProductChunk];
  for (uint64_t line = 0; line < lines; ++line) {
    for (uint64_t done = 0; done < line_length; done += kProductChunk) {
      const uint64_t length = line_length - done < kProductChunk ? line_length - done : kProductChunk;
      const std::byte* from = a + (line * line_length + done) * (dtype_bits(dtype) / 8);
      cast(kernels, dtype, kTarget, from, reinterpret_cast<std::byte*>(values), length);
      for (uint64_t i = 0; i < length; ++i) {
        const uint64_t k = transposed ? done + i : line;
        const uint64_t j = transposed ? line : done + i;
        panels[(j / kPanelColumns) * rank * kPanelColumns + k * kPanelColumns + j % kPanelColumns] =
            values[i];
      }
    }
  }
  for (uint64_t j = cols; j % kPanelColumns != 0; ++j)
    for (uint64_t k = 0; k < rank; ++k)
      panels[(j / kPanelColumns) * rank * kPanelColumns + k * kPanelColumns + j % kPanelColumns] = 0;
}

uint64_t smaller_panel(uint64_t a, uint64_t b) { return a < b ? a : b; }

// merge_strip(delta, row, column offset within the rectangle, length) -> count.
template <class T, class Product, class Merge>
uint64_t merge_strips(const PanelProduct<T>& task, Product product, Merge merge_strip) {
  uint64_t lost = 0;
  T delta[kStripRows * kStripColumns];
  for (uint64_t row = 0; row < task.rows; row += kStripRows) {
    const uint64_t rows = smaller_panel(kStripRows, task.rows - row);
    for (uint64_t column = task.col_begin; column < task.col_end;) {
      // Strips end on panel borders, so only the first and the last of a row hold part of a panel.
      const uint64_t end = smaller_panel(task.col_end, (column / kStripColumns + 1) * kStripColumns);
      PanelProduct<T> strip = task;
      strip.b = task.b + row * task.b_stride;
      strip.rows = rows;
      strip.col_begin = column;
      strip.col_end = end;
      strip.out = delta;
      strip.out_stride = kStripColumns;
      product(strip);
      for (uint64_t i = 0; i < rows; ++i)
        lost += merge_strip(delta + i * kStripColumns, row + i, column - task.col_begin, end - column);
      column = end;
    }
  }
  return lost;
}

}  // namespace

void pack_panels(const KernelTable& kernels, DType dtype, const std::byte* a, bool transposed, uint64_t rank,
                 uint64_t cols, float* panels) noexcept {
  pack(kernels, dtype, a, transposed, rank, cols, panels);
}
void pack_panels(const KernelTable& kernels, DType dtype, const std::byte* a, bool transposed, uint64_t rank,
                 uint64_t cols, double* panels) noexcept {
  pack(kernels, dtype, a, transposed, rank, cols, panels);
}

uint64_t merge_product(const KernelTable& kernels, PanelProduct<float> task, DType from, DType to, float s,
                       const std::byte* w, std::byte* out, uint64_t w_stride) noexcept {
  const uint64_t in_bytes = dtype_bits(from) / 8, out_bytes = dtype_bits(to) / 8;
  return merge_strips(
      task, kernels.product_f32, [&](const float* delta, uint64_t row, uint64_t column, uint64_t length) {
        const uint64_t at = row * w_stride + column;
        return kernels.merge_f32(from, to, w + at * in_bytes, s, delta, out + at * out_bytes, length);
      });
}

uint64_t merge_product(const KernelTable& kernels, PanelProduct<double> task, double s, const std::byte* w,
                       std::byte* out, uint64_t w_stride) noexcept {
  return merge_strips(task, kernels.product_f64,
                      [&](const double* delta, uint64_t row, uint64_t column, uint64_t length) {
                        const uint64_t at = 8 * (row * w_stride + column);
                        return kernels.merge_f64(w + at, s, delta, out + at, length);
                      });
}

}  // namespace tftf
