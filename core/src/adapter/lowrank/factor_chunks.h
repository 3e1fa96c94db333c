// Factors in F64, some columns at a time.
#pragma once

#include "tftf/adapter/low_rank.h"

namespace tftf::lowrank {

inline constexpr uint64_t kChunk = 128;      // columns of a factor that are widened at a time
inline constexpr uint64_t kRowStride = 136;  // elements between its rows: not a power of two, for the caches
static_assert(kRowStride >= kChunk);

// Elements of a chunk of R rows, widened, and of its panels in either direction.
uint64_t chunk_elements(uint64_t rank);
uint64_t chunk_panel_elements(uint64_t rank);

// Columns [first, first + count) of the factor, count <= kChunk: element (k, j) to rows[k * kRowStride + j].
void load_chunk(const KernelTable& kernels, const FactorStack& from, uint64_t first, uint64_t count,
                double* rows);

// out = a * b for row-major a (m x k) and b (k x n, or n x k when `transposed`), sums in the order of k. `panels` has
// panel_elements(k, n). Only columns up to and with that of the row's panel are made when `lower`.
struct SmallProduct {
  uint64_t m = 0, k = 0, n = 0;
  const double* a = nullptr;
  uint64_t a_stride = 0;
  const double* b = nullptr;
  uint64_t b_stride = 0;
  bool transposed = false;
  bool lower = false;
  double* panels = nullptr;
  double* out = nullptr;
  uint64_t out_stride = 0;
};
void multiply(const KernelTable& kernels, const SmallProduct& task);

// gram (R x R) = factor * factor^T, chunk by chunk in their order. `rows`, `panels`, `part`: chunk_elements(R),
// chunk_panel_elements(R), R * R elements of scratch.
void gram_matrix(const KernelTable& kernels, const FactorStack& from, double* rows, double* panels,
                 double* part, double* gram);

}  // namespace tftf::lowrank
