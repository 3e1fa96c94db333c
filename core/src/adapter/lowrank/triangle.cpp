// Triangular factors: of a Gram matrix, which is fast, or of the rows themselves, which is exact.
#include "adapter/lowrank/triangle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "adapter/lowrank/factor_chunks.h"

namespace tftf::lowrank {
namespace {

// What remains of a diagonal is rounding below this share of its largest element.
constexpr double kCholeskyEnd = 1e-15;
constexpr double kHouseholderEnd = 1e-15;  // of a length, not of its square

void start_order(Triangle& into) {
  for (uint64_t i = 0; i < into.rank; ++i) into.order[i] = static_cast<uint32_t>(i);
}

// x := x - v * (v * x) * factor, over `count` elements from the first.
void reflect(const double* v, double factor, double* x, uint64_t count) {
  double dot = 0;
  for (uint64_t i = 0; i < count; ++i) dot += v[i] * x[i];
  dot *= factor;
  for (uint64_t i = 0; i < count; ++i) x[i] -= dot * v[i];
}

// Makes x[1..] zero in `column` (of `count` elements from its diagonal on), and does the same to the others; the vector is
// left in `column` but for the diagonal, which the caller gets.
double eliminate(double* column, uint64_t count, double* others, uint64_t stride, uint64_t number) {
  double squares = 0;
  for (uint64_t i = 0; i < count; ++i) squares += column[i] * column[i];
  const double length = std::sqrt(squares);
  if (length == 0) return 0;
  const double diagonal = column[0] > 0 ? -length : length;
  column[0] -= diagonal;
  const double factor = 1 / (length * std::fabs(column[0]));
  for (uint64_t j = 0; j < number; ++j) reflect(column, factor, others + j * stride, count);
  return diagonal;
}

}  // namespace

void cholesky_triangle(double* gram, Triangle& into) {
  const uint64_t n = into.rank;
  double* l = into.l;
  start_order(into);
  std::fill(l, l + n * n, 0.0);
  // The remaining diagonal, by position in `order`.
  double largest = 0;
  for (uint64_t i = 0; i < n; ++i) largest = std::max(largest, gram[i * n + i]);
  into.kept = 0;
  for (uint64_t k = 0; k < n; ++k) {
    uint64_t pivot = k;
    for (uint64_t i = k + 1; i < n; ++i) {
      if (gram[into.order[i] * n + into.order[i]] > gram[into.order[pivot] * n + into.order[pivot]])
        pivot = i;
    }
    const double left = gram[into.order[pivot] * n + into.order[pivot]];
    if (!(left > kCholeskyEnd * largest)) break;
    if (pivot != k) {
      std::swap(into.order[k], into.order[pivot]);
      for (uint64_t j = 0; j < k; ++j) std::swap(l[k * n + j], l[pivot * n + j]);
    }
    const double* row = gram + into.order[k] * n;
    const double root = std::sqrt(left);
    l[k * n + k] = root;
    for (uint64_t i = k + 1; i < n; ++i) {
      double sum = row[into.order[i]];
      const double *a = l + i * n, *b = l + k * n;
      for (uint64_t j = 0; j < k; ++j) sum -= a[j] * b[j];
      const double value = sum / root;
      l[i * n + k] = value;
      gram[into.order[i] * n + into.order[i]] -= value * value;
    }
    ++into.kept;
  }
}

void householder_triangle(const KernelTable& kernels, const FactorStack& from, double* rows, double* work,
                          Triangle& into) {
  const uint64_t n = into.rank, stride = n + kChunk;
  // Column k of `work` is row k of F: first what is left of the columns so far (n elements), then the next of them.
  std::fill(work, work + n * stride, 0.0);
  for (uint64_t first = 0; first < from.length; first += kChunk) {
    const uint64_t count = std::min(kChunk, from.length - first);
    load_chunk(kernels, from, first, count, rows);
    for (uint64_t k = 0; k < n; ++k) std::copy_n(rows + k * kRowStride, count, work + k * stride + n);
    for (uint64_t k = 0; k < n; ++k) {
      double* column = work + k * stride;
      const double diagonal = eliminate(column + k, n - k + count, column + stride + k, stride, n - 1 - k);
      column[k] = diagonal;
      std::fill(column + k + 1, column + n + count, 0.0);
    }
  }
  // R of the whole, once more with the longest remaining column first.
  start_order(into);
  std::fill(into.l, into.l + n * n, 0.0);
  into.kept = 0;
  double largest = 0;
  for (uint64_t k = 0; k < n; ++k) {
    uint64_t pivot = k;
    double longest = -1;
    for (uint64_t j = k; j < n; ++j) {
      double squares = 0;
      for (uint64_t i = k; i < n; ++i) squares += work[j * stride + i] * work[j * stride + i];
      if (squares > longest) {
        longest = squares;
        pivot = j;
      }
    }
    longest = std::sqrt(longest);
    largest = std::max(largest, longest);
    if (!(longest > kHouseholderEnd * largest)) break;
    if (pivot != k) {
      std::swap(into.order[k], into.order[pivot]);
      std::swap_ranges(work + k * stride, work + k * stride + n, work + pivot * stride);
    }
    double* column = work + k * stride;
    const double diagonal = eliminate(column + k, n - k, column + stride + k, stride, n - 1 - k);
    column[k] = diagonal;
    std::fill(column + k + 1, column + n, 0.0);
    ++into.kept;
  }
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = 0; j <= i && j < into.kept; ++j) into.l[i * n + j] = work[i * stride + j];
}

}  // namespace tftf::lowrank
