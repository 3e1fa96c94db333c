// Power iteration over pieces of rows.
#include "adapter/lowrank/subspace.h"

#include <algorithm>
#include <cmath>

#include "adapter/lowrank/factor_chunks.h"
#include "adapter/lowrank/symmetric_eigen.h"
#include "adapter/lowrank/triangle.h"
#include "tftf/base/checked.h"
#include "tftf/simd/product.h"

namespace tftf::lowrank {
namespace {

constexpr uint64_t kPowerPasses = 6;
constexpr uint64_t kPieceElements = uint64_t{1} << 19;

uint64_t aligned(uint64_t elements) { return ceil_div(elements, 8) * 8; }

// Numbers between -1 and 1 that are the same everywhere.
double start_value(uint64_t number) {
  uint64_t x = number + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * (2.0 / 9007199254740992.0) - 1;
}

struct SubspaceScratch {
  double *panels, *part, *strip, *small, *vectors, *values, *eigen, *rows, *chunk_panels, *gram, *order;
  uint64_t elements = 0;

  SubspaceScratch(const SubspaceShape& shape, double* scratch) {
    const auto take = [&](uint64_t count) {
      // Without memory it only measures.
      double* at = scratch == nullptr ? nullptr : scratch + elements;
      elements += aligned(count);
      return at;
    };
    const uint64_t l = shape.block;
    panels = take(std::max({panel_elements(shape.cols, shape.piece), panel_elements(shape.piece, kChunk),
                            panel_elements(shape.cols, l), panel_elements(l, kChunk)}));
    part = take(l * std::max(shape.piece, l));
    strip = take(l * kRowStride);
    small = take(l * l);
    vectors = take(l * l);
    values = take(l);
    eigen = take(2 * l);
    rows = take(chunk_elements(l));
    chunk_panels = take(chunk_panel_elements(l));
    gram = take(l * l);
    order = take(l);
  }
};

// Rows of `to` := rows of `by` (count x l) times `from` (l x cols), strip by strip.
void combine_rows(const KernelTable& kernels, const double* by, uint64_t count, uint64_t l,
                  const double* from, uint64_t cols, double* to, const SubspaceScratch& s) {
  for (uint64_t first = 0; first < cols; first += kChunk) {
    const uint64_t some = std::min(kChunk, cols - first);
    multiply(kernels, {.m = count,
                       .k = l,
                       .n = some,
                       .a = by,
                       .a_stride = l,
                       .b = from + first,
                       .b_stride = cols,
                       .panels = s.panels,
                       .out = s.strip,
                       .out_stride = kRowStride});
    for (uint64_t i = 0; i < count; ++i) std::copy_n(s.strip + i * kRowStride, some, to + i * cols + first);
  }
}

// to := the rows of `from` made orthonormal, as many as are independent; zero behind them.
void orthonormalise(const KernelTable& kernels, uint64_t l, uint64_t cols, const double* from, double* to,
                    const SubspaceScratch& s) {
  const FactorPart part{
      .data = reinterpret_cast<const std::byte*>(from), .dtype = DType::F64, .rank = l, .rank_last = false};
  gram_matrix(kernels, {.parts = {&part, 1}, .length = cols}, s.rows, s.chunk_panels, s.part, s.gram);
  Triangle triangle{.rank = l, .l = s.small, .order = reinterpret_cast<uint32_t*>(s.order)};
  cholesky_triangle(s.gram, triangle);
  // Row i of the inverse of the triangle's square part, in the order of the rows.
  const uint64_t n = triangle.kept;
  double* inverse = s.vectors;
  std::fill(inverse, inverse + l * l, 0.0);
  for (uint64_t i = 0; i < n; ++i) {
    double* row = inverse + i * l;
    row[triangle.order[i]] = 1;
    for (uint64_t j = 0; j < i; ++j) {
      const double factor = triangle.l[i * l + j];
      const double* before = inverse + j * l;
      for (uint64_t k = 0; k < l; ++k) row[k] -= factor * before[k];
    }
    const double diagonal = triangle.l[i * l + i];
    for (uint64_t k = 0; k < l; ++k) row[k] /= diagonal;
  }
  combine_rows(kernels, inverse, l, l, from, cols, to, s);
}

// What is left of a pass: V are the vectors, Z = V * M^T * M.
void end_pass(const KernelTable& kernels, const SubspaceShape& shape, bool last, double* state, double* v,
              double* z, const SubspaceScratch& s) {
  const uint64_t l = shape.block, cols = shape.cols;
  if (!last) {
    // Twice: what the first leaves is orthogonal to half the digits.
    orthonormalise(kernels, l, cols, z, v, s);
    orthonormalise(kernels, l, cols, v, z, s);
    std::copy_n(z, l * cols, v);
    std::fill_n(z, l * cols, 0.0);
    return;
  }
  multiply(kernels, {.m = l,
                     .k = cols,
                     .n = l,
                     .a = v,
                     .a_stride = cols,
                     .b = z,
                     .b_stride = cols,
                     .transposed = true,
                     .panels = s.panels,
                     .out = s.gram,
                     .out_stride = l});
  for (uint64_t i = 0; i < l; ++i)
    for (uint64_t j = i + 1; j < l; ++j) s.gram[i * l + j] = s.gram[j * l + i];
  if (!symmetric_eigen(s.gram, l, shape.kept, s.values, s.vectors, s.eigen))
    std::fill_n(s.vectors, l * l, 0.0);
  for (uint64_t i = 0; i < shape.kept; ++i) {
    double* u = s.vectors + i * l;
    uint64_t largest = 0;
    for (uint64_t j = 1; j < l; ++j)
      if (std::fabs(u[j]) > std::fabs(u[largest])) largest = j;
    if (u[largest] < 0)
      for (uint64_t j = 0; j < l; ++j) u[j] = -u[j];
    state[i] = s.values[i] > 0 ? std::sqrt(s.values[i]) : 0;
  }
  combine_rows(kernels, s.vectors, shape.kept, l, v, cols, z, s);
  std::copy_n(z, shape.kept * cols, v);
}

}  // namespace

SubspaceShape subspace_shape(uint64_t rows, uint64_t cols, uint64_t kept) {
  SubspaceShape shape{.rows = rows, .cols = cols};
  shape.kept = std::min({kept, rows, cols});
  shape.block = std::min(cols, shape.kept + std::max<uint64_t>(16, shape.kept / 2));
  // All columns: the identity spans them. All rows: one pass finds what they span.
  shape.passes = shape.block == cols ? 1 : shape.block >= rows ? 3 : kPowerPasses;
  shape.piece = std::clamp<uint64_t>(kPieceElements / std::max<uint64_t>(cols, 1), 4, 64);
  shape.piece = std::min(shape.piece, rows);
  return shape;
}

uint64_t vectors_at(const SubspaceShape& shape) { return aligned(shape.kept); }
uint64_t subspace_state(const SubspaceShape& shape) {
  return vectors_at(shape) + 2 * aligned(shape.block * shape.cols);
}
uint64_t subspace_scratch(const SubspaceShape& shape) { return SubspaceScratch(shape, nullptr).elements; }

void add_piece(const KernelTable& kernels, const SubspaceShape& shape, uint64_t number, const double* matrix,
               uint64_t count, double* state, double* scratch) {
  const SubspaceScratch s(shape, scratch);
  const uint64_t l = shape.block, cols = shape.cols;
  double *v = state + vectors_at(shape), *z = v + aligned(l * cols);
  if (number == 0) {
    for (uint64_t i = 0; i < l; ++i)
      for (uint64_t j = 0; j < cols; ++j)
        v[i * cols + j] = l == cols ? (i == j ? 1 : 0) : start_value(i * cols + j);
  }
  multiply(kernels, {.m = l,
                     .k = cols,
                     .n = count,
                     .a = v,
                     .a_stride = cols,
                     .b = matrix,
                     .b_stride = cols,
                     .transposed = true,
                     .panels = s.panels,
                     .out = s.part,
                     .out_stride = count});
  for (uint64_t first = 0; first < cols; first += kChunk) {
    const uint64_t some = std::min(kChunk, cols - first);
    multiply(kernels, {.m = l,
                       .k = count,
                       .n = some,
                       .a = s.part,
                       .a_stride = count,
                       .b = matrix + first,
                       .b_stride = cols,
                       .panels = s.panels,
                       .out = s.strip,
                       .out_stride = kRowStride});
    for (uint64_t i = 0; i < l; ++i)
      for (uint64_t j = 0; j < some; ++j) z[i * cols + first + j] += s.strip[i * kRowStride + j];
  }
  const uint64_t pieces = shape.pieces();
  if (number % pieces + 1 != pieces) return;
  end_pass(kernels, shape, number / pieces + 1 == shape.passes, state, v, z, s);
}

void project_rows(const KernelTable& kernels, const SubspaceShape& shape, const double* state,
                  const double* matrix, uint64_t count, double* out, uint64_t stride, double* scratch) {
  const SubspaceScratch s(shape, scratch);
  multiply(kernels, {.m = shape.kept,
                     .k = shape.cols,
                     .n = count,
                     .a = state + vectors_at(shape),
                     .a_stride = shape.cols,
                     .b = matrix,
                     .b_stride = shape.cols,
                     .transposed = true,
                     .panels = s.panels,
                     .out = out,
                     .out_stride = stride});
}

}  // namespace tftf::lowrank
