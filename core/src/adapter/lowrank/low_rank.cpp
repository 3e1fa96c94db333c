// The decomposition itself, and new factors from it.
#include "tftf/adapter/low_rank.h"

#include <algorithm>
#include <cmath>

#include "adapter/lowrank/factor_chunks.h"
#include "adapter/lowrank/symmetric_eigen.h"
#include "adapter/lowrank/triangle.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/product.h"

namespace tftf {

using namespace lowrank;

namespace {

// The Gram matrices tell the product to 1e-8 of the factors' norms: where it is so much smaller than they are, the factors
// are taken apart themselves.
constexpr double kCancelled = 0.0078125;
// What is no more than this share of the factors' norms is rounding, whatever it was made by.
constexpr double kNothing = 1e-15;

// The scratch of one decomposition, cut into its parts.
struct Workspace {
  double *gram, *part, *up, *down, *small, *panels, *rows, *chunk_panels, *out, *work, *eigen;
  uint32_t *up_order, *down_order;
  uint64_t bytes = 0;

  Workspace(uint64_t rank, std::byte* scratch) {
    const auto take = [&](uint64_t elements) {
      // Without memory it only measures.
      auto* at = scratch == nullptr ? nullptr : reinterpret_cast<double*>(scratch + bytes);
      bytes += ceil_div(elements * sizeof(double), 64) * 64;
      return at;
    };
    gram = take(rank * rank);
    part = take(rank * rank);
    up = take(rank * rank);
    down = take(rank * rank);
    small = take(rank * rank);
    panels = take(panel_elements(rank, rank));
    rows = take(chunk_elements(rank));
    chunk_panels = take(chunk_panel_elements(rank));
    out = take(chunk_elements(rank));
    work = take(rank * (rank + kChunk));
    eigen = take(2 * rank);
    up_order = reinterpret_cast<uint32_t*>(take(rank));
    down_order = reinterpret_cast<uint32_t*>(take(rank));
  }
};

// Divides by the power of four that brings the diagonal below 1; gives its root, or nothing where that is not finite.
std::optional<double> normalise(double* gram, uint64_t rank, double& trace) {
  double largest = 0;
  trace = 0;
  for (uint64_t i = 0; i < rank * rank; ++i)
    if (!std::isfinite(gram[i])) return std::nullopt;
  for (uint64_t i = 0; i < rank; ++i) {
    largest = std::max(largest, gram[i * rank + i]);
    trace += gram[i * rank + i];
  }
  if (largest == 0) return 1.0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  exponent += exponent & 1;
  const double factor = std::ldexp(1.0, -exponent);
  for (uint64_t i = 0; i < rank * rank; ++i) gram[i] *= factor;
  trace *= factor;
  return std::ldexp(1.0, exponent / 2);
}

class Decomposition {
 public:
  Decomposition(const KernelTable& kernels, const FactorStack& up, const FactorStack& down,
                std::byte* scratch, const LowRank& into)
      : kernels_(kernels),
        up_stack_(up),
        down_stack_(down),
        rank_(up.rank()),
        w_(rank_, scratch),
        into_(into) {
    up_ = {.rank = rank_, .l = w_.up, .order = w_.up_order};
    down_ = {.rank = rank_, .l = w_.down, .order = w_.down_order};
  }

  bool run() {
    std::fill(into_.values.begin(), into_.values.end(), 0.0);
    std::fill(into_.left.begin(), into_.left.end(), 0.0);
    std::fill(into_.right.begin(), into_.right.end(), 0.0);
    double up_trace = 0, down_trace = 0;
    gram_matrix(kernels_, up_stack_, w_.rows, w_.chunk_panels, w_.part, w_.gram);
    const auto up_scale = normalise(w_.gram, rank_, up_trace);
    if (!up_scale) return false;
    up_scale_ = *up_scale;
    cholesky_triangle(w_.gram, up_);
    gram_matrix(kernels_, down_stack_, w_.rows, w_.chunk_panels, w_.part, w_.gram);
    const auto down_scale = normalise(w_.gram, rank_, down_trace);
    if (!down_scale) return false;
    down_scale_ = *down_scale;
    cholesky_triangle(w_.gram, down_);
    const double norms = up_trace * down_trace;
    if (up_.kept == 0 || down_.kept == 0) return true;
    double squares = make_small();
    if (squares < kCancelled * kCancelled * norms) {
      householder_triangle(kernels_, up_stack_, w_.rows, w_.work, up_);
      householder_triangle(kernels_, down_stack_, w_.rows, w_.work, down_);
      scale_triangle(up_, 1 / up_scale_);
      scale_triangle(down_, 1 / down_scale_);
      if (up_.kept == 0 || down_.kept == 0) return true;
      squares = make_small();
      if (!(squares > kNothing * kNothing * norms)) return true;
    }
    return take_apart();
  }

 private:
  void scale_triangle(const Triangle& triangle, double factor) const {
    for (uint64_t i = 0; i < rank_ * rank_; ++i) triangle.l[i] *= factor;
  }

  // small = up^T * down over the rows of both triangles (kept x kept), and gram = small * small^T. The sum of squares of
  // `small`.
  double make_small() {
    double *a = w_.part, *b = w_.gram;
    for (uint64_t i = 0; i < rank_; ++i) {
      for (uint64_t j = 0; j < up_.kept; ++j) a[j * rank_ + up_.order[i]] = up_.l[i * rank_ + j];
      for (uint64_t j = 0; j < down_.kept; ++j) b[down_.order[i] * rank_ + j] = down_.l[i * rank_ + j];
    }
    multiply(kernels_, {.m = up_.kept,
                        .k = rank_,
                        .n = down_.kept,
                        .a = a,
                        .a_stride = rank_,
                        .b = b,
                        .b_stride = rank_,
                        .panels = w_.panels,
                        .out = w_.small,
                        .out_stride = rank_});
    multiply(kernels_, {.m = up_.kept,
                        .k = down_.kept,
                        .n = up_.kept,
                        .a = w_.small,
                        .a_stride = rank_,
                        .b = w_.small,
                        .b_stride = rank_,
                        .transposed = true,
                        .panels = w_.panels,
                        .out = w_.part,
                        .out_stride = rank_});
    const uint64_t n = up_.kept;
    double squares = 0;
    for (uint64_t i = 0; i < n; ++i) {
      squares += w_.part[i * rank_ + i];
      for (uint64_t j = 0; j < n; ++j) w_.gram[i * n + j] = w_.part[i * rank_ + j];
    }
    return squares;
  }

  bool take_apart() {
    const uint64_t n = up_.kept, most = rank_ == 0 ? 0 : into_.left.size() / rank_;
    double *vectors = w_.small, *squares = w_.part;
    if (!symmetric_eigen(w_.gram, n, most, squares, vectors, w_.eigen)) return false;
    for (uint64_t i = 0; i < n; ++i)
      into_.values[to_size(i)] = squares[i] > 0 ? std::sqrt(squares[i]) * up_scale_ * down_scale_ : 0;
    for (uint64_t i = 0; i < n && i < most; ++i) {
      double* u = vectors + i * n;
      uint64_t largest = 0;
      for (uint64_t j = 1; j < n; ++j)
        if (std::fabs(u[j]) > std::fabs(u[largest])) largest = j;
      if (u[largest] < 0)
        for (uint64_t j = 0; j < n; ++j) u[j] = -u[j];
      double* right = into_.right.data() + i * rank_;
      for (uint64_t row = 0; row < rank_; ++row) {
        double sum = 0;
        for (uint64_t j = 0; j < n && j <= row; ++j) sum += u[j] * up_.l[row * rank_ + j];
        right[up_.order[row]] = sum * up_scale_;
      }
      // The square part of the triangle, transposed, solved for u.
      double* left = into_.left.data() + i * rank_;
      for (uint64_t j = n; j-- > 0;) {
        const double x = u[j] / up_.l[j * rank_ + j];
        for (uint64_t k = 0; k < j; ++k) u[k] -= x * up_.l[j * rank_ + k];
        left[up_.order[j]] = x / up_scale_;
      }
    }
    return true;
  }

  const KernelTable& kernels_;
  const FactorStack &up_stack_, &down_stack_;
  uint64_t rank_;
  Workspace w_;
  const LowRank& into_;
  Triangle up_, down_;
  double up_scale_ = 1, down_scale_ = 1;
};

// Where columns [first, first + some) of `count` rows of `length` go.
struct ChunkPlace {
  uint64_t count, length, first, some;
  DType to;
  bool rank_last;
};

// Rounds rows of kRowStride into their place; how many became infinite.
uint64_t store_chunk(const KernelTable& kernels, const double* rows, const ChunkPlace& at, std::byte* out) {
  const uint64_t size = dtype_bits(at.to) / 8;
  uint64_t infinite = 0;
  if (!at.rank_last) {
    for (uint64_t i = 0; i < at.count; ++i)
      infinite += cast(kernels, DType::F64, at.to, reinterpret_cast<const std::byte*>(rows + i * kRowStride),
                       out + (i * at.length + at.first) * size, at.some);
    return infinite;
  }
  double line[kChunk];
  for (uint64_t j = 0; j < at.some; ++j)
    for (uint64_t done = 0; done < at.count; done += kChunk) {
      const uint64_t part = std::min(kChunk, at.count - done);
      for (uint64_t i = 0; i < part; ++i) line[i] = rows[(done + i) * kRowStride + j];
      infinite += cast(kernels, DType::F64, at.to, reinterpret_cast<const std::byte*>(line),
                       out + ((at.first + j) * at.count + done) * size, part);
    }
  return infinite;
}

}  // namespace

uint64_t FactorStack::rank() const {
  uint64_t sum = 0;
  for (const FactorPart& part : parts) sum += part.rank;
  return sum;
}

std::optional<uint64_t> low_rank_scratch(uint64_t rank) {
  if (rank > kMaxDecomposedRank) return std::nullopt;
  return Workspace(rank, nullptr).bytes;
}

bool decompose(const KernelTable& kernels, const FactorStack& up, const FactorStack& down,
               std::span<std::byte> scratch, const LowRank& into) noexcept {
  return Decomposition(kernels, up, down, scratch.data(), into).run();
}

uint64_t write_factor(const KernelTable& kernels, const FactorStack& from, std::span<const double> transform,
                      std::span<const double> factors, DType to, bool rank_last, std::span<std::byte> scratch,
                      std::byte* out) noexcept {
  const uint64_t rank = from.rank(), count = factors.size(), length = from.length;
  if (rank == 0 || count == 0) return 0;
  const Workspace w(rank, scratch.data());
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < length; first += kChunk) {
    const uint64_t some = std::min(kChunk, length - first);
    load_chunk(kernels, from, first, some, w.rows);
    multiply(kernels, {.m = count,
                       .k = rank,
                       .n = some,
                       .a = transform.data(),
                       .a_stride = rank,
                       .b = w.rows,
                       .b_stride = kRowStride,
                       .panels = w.chunk_panels,
                       .out = w.out,
                       .out_stride = kRowStride});
    for (uint64_t i = 0; i < count; ++i)
      for (uint64_t j = 0; j < some; ++j) w.out[i * kRowStride + j] *= factors[to_size(i)];
    infinite += store_chunk(kernels, w.out, {count, length, first, some, to, rank_last}, out);
  }
  return infinite;
}

uint64_t write_stack(const KernelTable& kernels, const FactorStack& from, bool sum, DType to, bool rank_last,
                     std::span<std::byte> scratch, std::byte* out) noexcept {
  const uint64_t rank = from.rank(), length = from.length;
  if (rank == 0) return 0;
  const uint64_t count = sum ? from.parts[0].rank : rank;
  const Workspace w(rank, scratch.data());
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < length; first += kChunk) {
    const uint64_t some = std::min(kChunk, length - first);
    load_chunk(kernels, from, first, some, w.rows);
    for (uint64_t row = count; row < rank; ++row)
      for (uint64_t j = 0; j < some; ++j)
        w.rows[row % count * kRowStride + j] += w.rows[row * kRowStride + j];
    infinite += store_chunk(kernels, w.rows, {count, length, first, some, to, rank_last}, out);
  }
  return infinite;
}

}  // namespace tftf
