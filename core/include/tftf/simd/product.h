// Low-rank products: how the right factor is packed, and the merge of a rectangle in one call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/base/dtype.h"
#include "tftf/simd/kernels.h"

namespace tftf {

inline constexpr uint64_t kPanelColumns = 16;

// Elements of the packed form of a rank x cols matrix: whole panels of 16 columns.
constexpr uint64_t panel_elements(uint64_t rank, uint64_t cols) {
  return (cols / kPanelColumns + (cols % kPanelColumns != 0 ? 1 : 0)) * kPanelColumns * rank;
}
// Packs A (rank x cols, any dtype that casts to T = F32 or F64, row-major; `transposed`: stored as cols x
// rank) into panels, see PanelProduct. `panels` has panel_elements(rank, cols) elements.
void pack_panels(const KernelTable& kernels, DType dtype, const std::byte* a, bool transposed, uint64_t rank,
                 uint64_t cols, float* panels) noexcept;
void pack_panels(const KernelTable& kernels, DType dtype, const std::byte* a, bool transposed, uint64_t rank,
                 uint64_t cols, double* panels) noexcept;

// y = round(f32(w) + s * (B*A)) over a rectangle of W (spec tftf 2.6): product_f32 and merge_f32 in strips
// that stay in the first-level cache. `task.out` is ignored; w and out hold rows of w_stride elements each,
// beginning at column task.col_begin. from and to: BF16, F16 or F32. Returns the count of merge_f32.
uint64_t merge_product(const KernelTable& kernels, PanelProduct<float> task, DType from, DType to, float s,
                       const std::byte* w, std::byte* out, uint64_t w_stride) noexcept;
// F64 weights, all in f64.
uint64_t merge_product(const KernelTable& kernels, PanelProduct<double> task, double s, const std::byte* w,
                       std::byte* out, uint64_t w_stride) noexcept;

}  // namespace tftf
