#include "merge_turns.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf::transform {
namespace {

using Turn = MergeProgram::Turn;

double value_at(const TensorData& tensor, uint64_t index) {
  return element_as_f64(tensor.dtype, tensor.bytes.data(), index);
}

// Columns of `turn`, brought to length 1, each a row of `to`; orthogonal to those before, where asked.
template <class T>
void prepare_reflections(const MergeProgram& program, T* to) {
  const uint64_t n = program.turn->shape[0], r = program.turn->shape[1];
  std::vector<std::vector<double>> done;
  for (uint64_t k = 0; k < r; ++k) {
    std::vector<double> u(to_size(n));
    for (uint64_t i = 0; i < n; ++i) u[to_size(i)] = value_at(*program.turn, i * r + k);
    if (program.turn_kind == Turn::kOrthogonalReflections) {
      for (const std::vector<double>& other : done) {
        double dot = 0;
        for (size_t i = 0; i < u.size(); ++i) dot += other[i] * u[i];
        for (size_t i = 0; i < u.size(); ++i) u[i] -= dot * other[i];
      }
    }
    double squares = 0;
    for (const double x : u) squares += x * x;
    const double norm = std::sqrt(squares);
    for (double& x : u) x /= norm;
    for (uint64_t i = 0; i < n; ++i) to[k * n + i] = static_cast<T>(u[to_size(i)]);
    if (program.turn_kind == Turn::kOrthogonalReflections) done.push_back(std::move(u));
  }
}

template <class T>
void prepare_butterfly(const MergeProgram& program, T* to) {
  const Shape& shape = program.turn->shape;
  const uint64_t n = shape[2], blocks = shape[0] * shape[1];
  for (uint64_t block = 0; block < blocks; ++block) {
    const auto stored = [&](uint64_t i, uint64_t j) {
      return value_at(*program.turn, (block * n + i) * n + j);
    };
    Square q(to_size(n * n));
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = 0; j < n; ++j) q[to_size(i * n + j)] = 0.5 * (stored(i, j) - stored(j, i));
    const Square d = cayley(q, n);
    for (uint64_t i = 0; i < n * n; ++i) to[block * n * n + i] = static_cast<T>(d[to_size(i)]);
  }
}

// Where factor `factor` of a butterfly moves column k to: halves of blocks of b columns are sorted into even and odd
// ones, among as many blocks as 2^factor.
uint64_t butterfly_place(uint64_t k, uint64_t b, uint64_t factor) {
  const uint64_t half = b / 2, group = b << factor;
  const uint64_t at = k % group, halves = group / half;
  const uint64_t evens = (halves + 1) / 2, q = at / half;
  return k - at + (q < evens ? 2 * q : 2 * (q - evens) + 1) * half + at % half;
}

template <class T>
void turn_reflections(const MergeProgram& program, const T* ready, T* row) {
  const uint64_t n = program.turn->shape[0], r = program.turn->shape[1];
  for (uint64_t k = 0; k < r; ++k) {
    const T* u = ready + k * n;
    T dot = 0;
    for (uint64_t i = 0; i < n; ++i) dot += row[i] * u[i];
    const T twice = 2 * dot;
    for (uint64_t i = 0; i < n; ++i) row[i] -= twice * u[i];
  }
}

template <class T>
void turn_butterfly(const MergeProgram& program, const T* ready, T* row, T* spare) {
  const Shape& shape = program.turn->shape;
  const uint64_t factors = shape[0], blocks = shape[1], n = shape[2], cols = blocks * n;
  for (uint64_t factor = 0; factor < factors; ++factor) {
    const auto place = [&](uint64_t k) { return factors == 1 ? k : butterfly_place(k, n, factor); };
    for (uint64_t k = 0; k < cols; ++k) spare[place(k)] = row[k];
    for (uint64_t k = 0; k < cols; ++k) {
      const uint64_t at = place(k), block = at / n, j = at % n;
      const T* of = ready + ((factor * blocks + block) * n + j) * n;
      T sum = 0;
      for (uint64_t i = 0; i < n; ++i) sum += spare[block * n + i] * of[i];
      row[k] = sum;
    }
  }
}

template <class T>
void turn_blocks(const MergeProgram& program, const T* ready, uint64_t row_number, T* row, T* spare) {
  const uint64_t n = program.turn->shape[1], cols = program.cols;
  const T *of = ready + row_number / n * n * n, *own = of + row_number % n * n;
  for (uint64_t block = 0; block < cols / n; ++block) {
    const T* w = row + block * n;
    T* out = spare + block * n;
    std::fill(out, out + n, T{0});
    for (uint64_t k = 0; k < n; ++k)
      for (uint64_t j = 0; j < n; ++j) out[j] += w[k] * of[k * n + j];
    for (uint64_t j = 0; j < n; ++j) {
      out[j] += own[j];
      out[j] += w[j];
    }
  }
  std::copy(spare, spare + cols, row);
}

}  // namespace

Square square_product(const Square& a, const Square& b, uint64_t n) {
  Square c(a.size(), 0.0);
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t k = 0; k < n; ++k)
      for (uint64_t j = 0; j < n; ++j) c[to_size(i * n + j)] += a[to_size(i * n + k)] * b[to_size(k * n + j)];
  return c;
}

// Its transpose X solves (I - Q) X = I + Q; the diagonal of a skew matrix plus I never vanishes, so that elimination with
// pivots always succeeds.
Square cayley(const Square& q, uint64_t n) {
  Square a(q.size()), x(q.size());
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      a[to_size(i * n + j)] = (i == j ? 1.0 : 0.0) - q[to_size(i * n + j)];
      x[to_size(i * n + j)] = (i == j ? 1.0 : 0.0) + q[to_size(i * n + j)];
    }
  for (uint64_t c = 0; c < n; ++c) {
    uint64_t pivot = c;
    for (uint64_t r = c + 1; r < n; ++r)
      if (std::fabs(a[to_size(r * n + c)]) > std::fabs(a[to_size(pivot * n + c)])) pivot = r;
    for (uint64_t j = 0; j < n && pivot != c; ++j) {
      std::swap(a[to_size(c * n + j)], a[to_size(pivot * n + j)]);
      std::swap(x[to_size(c * n + j)], x[to_size(pivot * n + j)]);
    }
    for (uint64_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double f = a[to_size(r * n + c)] / a[to_size(c * n + c)];
      if (f == 0) continue;
      for (uint64_t j = 0; j < n; ++j) {
        a[to_size(r * n + j)] -= f * a[to_size(c * n + j)];
        x[to_size(r * n + j)] -= f * x[to_size(c * n + j)];
      }
    }
    for (uint64_t j = 0; j < n; ++j) x[to_size(c * n + j)] /= a[to_size(c * n + c)];
    for (uint64_t j = n; j-- > 0;) a[to_size(c * n + j)] /= a[to_size(c * n + c)];
  }
  Square r(q.size());
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = 0; j < n; ++j) r[to_size(i * n + j)] = x[to_size(j * n + i)];
  return r;
}

template <class T>
void prepare_turn(const MergeProgram& program, T* to) {
  switch (program.turn_kind) {
    case Turn::kNone:
      return;
    case Turn::kReflections:
    case Turn::kOrthogonalReflections:
      return prepare_reflections(program, to);
    case Turn::kButterfly:
      return prepare_butterfly(program, to);
    case Turn::kBlocks:
      for (uint64_t i = 0; i < element_count(program.turn->shape).value_or(0); ++i)
        to[i] = static_cast<T>(value_at(*program.turn, i));
      return;
  }
}

template <class T>
void turn_row(const MergeProgram& program, const T* ready, uint64_t row_number, T* row, T* spare) {
  switch (program.turn_kind) {
    case Turn::kNone:
      return;
    case Turn::kReflections:
    case Turn::kOrthogonalReflections:
      return turn_reflections(program, ready, row);
    case Turn::kButterfly:
      return turn_butterfly(program, ready, row, spare);
    case Turn::kBlocks:
      return turn_blocks(program, ready, row_number, row, spare);
  }
}

template void prepare_turn(const MergeProgram& program, float* to);
template void prepare_turn(const MergeProgram& program, double* to);
template void turn_row(const MergeProgram& program, const float* ready, uint64_t row_number, float* row,
                       float* spare);
template void turn_row(const MergeProgram& program, const double* ready, uint64_t row_number, double* row,
                       double* spare);

}  // namespace tftf::transform
