#include "merge_factors.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "merge_turns.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"
#include "tftf/simd/product.h"

namespace tftf::transform {
namespace {

constexpr uint64_t kRun = 256;  // elements widened at a time

template <class T>
constexpr DType kWide = sizeof(T) == 4 ? DType::F32 : DType::F64;

template <class T>
T element(const TensorData& tensor, uint64_t index) {
  T value;
  cast(scalar_kernels(), tensor.dtype, kWide<T>, tensor.bytes.data() + index * (dtype_bits(tensor.dtype) / 8),
       reinterpret_cast<std::byte*>(&value), 1);
  return value;
}

template <class T>
void widen(const TensorData& tensor, uint64_t first, uint64_t count, T* to) {
  cast(best_kernels(), tensor.dtype, kWide<T>, tensor.bytes.data() + first * (dtype_bits(tensor.dtype) / 8),
       reinterpret_cast<std::byte*>(to), count);
}

// put(i, j, value) for every element of the factor's matrix.
template <class T, class Put>
void each_element(const Factor& factor, uint64_t matrix, Put put) {
  const TensorData& tensor = *factor.tensor;
  const uint64_t base = factor.first + matrix * factor.matrix_step;
  const auto scaled = [&](uint64_t i, uint64_t j, T value) {
    if (factor.row_scale != nullptr) value = element<T>(*factor.row_scale, i) * value;
    return factor.col_scale == nullptr ? value : element<T>(*factor.col_scale, j) * value;
  };
  if (factor.core != nullptr) {
    const uint64_t inner = factor.core->shape[1];
    const uint64_t columns = tensor.shape[1];
    const uint64_t kernel = columns == 0 ? 0 : factor.cols / columns;
    for (uint64_t i = 0; i < factor.rows; ++i)
      for (uint64_t c = 0; c < columns; ++c)
        for (uint64_t x = 0; x < kernel; ++x) {
          T sum = 0;
          for (uint64_t k = 0; k < inner; ++k)
            sum += element<T>(*factor.core, (i * inner + k) * kernel + x) *
                   element<T>(tensor, k * factor.row_step + c * factor.col_step);
          put(i, c * kernel + x, sum);
        }
    return;
  }
  // Runs along the dimension in which the elements are neighbours.
  const bool by_rows = factor.col_step == 1 || factor.row_step != 1;
  const uint64_t lines = by_rows ? factor.rows : factor.cols, length = by_rows ? factor.cols : factor.rows;
  const uint64_t line_step = by_rows ? factor.row_step : factor.col_step;
  const uint64_t step = by_rows ? factor.col_step : factor.row_step;
  T run[kRun];
  for (uint64_t line = 0; line < lines; ++line) {
    for (uint64_t done = 0; done < length; done += kRun) {
      const uint64_t count = std::min(kRun, length - done);
      const uint64_t first = base + line * line_step + done * step;
      if (step == 1) {
        widen(tensor, first, count, run);
      } else {
        for (uint64_t n = 0; n < count; ++n) run[n] = element<T>(tensor, first + n * step);
      }
      for (uint64_t n = 0; n < count; ++n) {
        const uint64_t i = by_rows ? line : done + n, j = by_rows ? done + n : line;
        put(i, j, scaled(i, j, run[n]));
      }
    }
  }
}

template <class T>
void fill_rows(const Factor& factor, uint64_t matrix, T* to) {
  each_element<T>(factor, matrix, [&](uint64_t i, uint64_t j, T value) { to[i * factor.cols + j] = value; });
}

template <class T>
void fill_panels(const Factor& factor, uint64_t matrix, T* to) {
  const uint64_t rank = factor.rows;
  const auto at = [rank](uint64_t k, uint64_t j) {
    return j / kPanelColumns * rank * kPanelColumns + k * kPanelColumns + j % kPanelColumns;
  };
  each_element<T>(factor, matrix, [&](uint64_t k, uint64_t j, T value) { to[at(k, j)] = value; });
  for (uint64_t j = factor.cols; j % kPanelColumns != 0; ++j)
    for (uint64_t k = 0; k < rank; ++k) to[at(k, j)] = 0;
}

// I + 2Q + 2Q^2 ... with `terms` terms; the last power has the weight 1, but never the second.
Square neumann(const Square& q, uint64_t n, uint32_t terms) {
  Square r(q.size(), 0.0), power = q;
  for (uint64_t i = 0; i < n; ++i) r[to_size(i * n + i)] = 1;
  if (terms < 2) return r;
  const auto add = [&](double weight) {
    for (size_t i = 0; i < r.size(); ++i) r[i] += weight * power[i];
  };
  add(2);
  if (terms < 3) return r;
  power = square_product(power, q, n);
  add(2);
  for (uint32_t t = 3; t + 1 < terms; ++t) {
    power = square_product(power, q, n);
    add(2);
  }
  power = square_product(power, q, n);
  add(1);
  return r;
}

template <class T>
void fill_rotation(const MergeProgram& program, T* to) {
  const uint64_t n = program.block_size, values = n * (n - 1) / 2;
  const uint64_t blocks = program.rotation->shape[0];
  for (uint64_t block = 0; block < blocks; ++block) {
    Square q(static_cast<size_t>(n * n), 0.0);
    uint64_t at = block * values;
    double squares = 0;
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = i + 1; j < n; ++j, ++at) {
        const double value = element<double>(*program.rotation, at);
        q[to_size(i * n + j)] = value;
        q[to_size(j * n + i)] = -value;
        squares += 2 * value * value;
      }
    if (program.rotation_limit > 0 && std::sqrt(squares) > program.rotation_limit)
      for (double& value : q) value *= program.rotation_limit / std::sqrt(squares);
    const Square d = program.neumann_terms == 0 ? cayley(q, n) : neumann(q, n, program.neumann_terms);
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = 0; j < n; ++j)
        to[(block * n + i) * n + j] =
            static_cast<T>(program.rotation_transposed ? d[to_size(j * n + i)] : d[to_size(i * n + j)]);
  }
}

uint64_t elements_of(const TensorData* tensor) {
  return tensor == nullptr ? 0 : element_count(tensor->shape).value_or(0);
}

}  // namespace

KroneckerShape kronecker_shape(const MergeProgram& program) {
  KroneckerShape shape;
  if (!program.left.empty()) {
    shape.rows1 = program.left.rows;
    shape.cols1 = program.right.empty() ? program.left.cols : program.right.cols;
  }
  shape.rows2 = program.left2.rows;
  shape.cols2 = program.right2.empty() ? program.left2.cols : program.right2.cols;
  return shape;
}

MergeLayout merge_layout(const MergeProgram& program) {
  MergeLayout layout;
  const auto take = [&layout](uint64_t& at, uint64_t elements) {
    at = layout.total;
    layout.total += (elements + 15) / 16 * 16;
  };
  const auto rows = [](const Factor& f) { return f.empty() ? 0 : f.rows * f.cols; };
  const auto panels = [](const Factor& f) { return f.empty() ? 0 : panel_elements(f.rows, f.cols); };
  if (program.delta != MergeProgram::Delta::kNone) {
    take(layout.left, rows(program.left));
    take(layout.right, panels(program.right));
    take(layout.left2, rows(program.left2));
    take(layout.right2, panels(program.right2));
  }
  take(layout.multiplier, elements_of(program.multiplier));
  take(layout.rotation, program.rotation == nullptr
                            ? 0
                            : program.rotation->shape[0] * program.block_size * program.block_size);
  take(layout.turn, elements_of(program.turn));
  take(layout.magnitude, elements_of(program.magnitude));
  return layout;
}

template <class T>
void prepare_merge(const MergeProgram& program, uint64_t matrix, T* ready) {
  const MergeLayout at = merge_layout(program);
  if (!program.left.empty()) fill_rows(program.left, matrix, ready + at.left);
  if (!program.right.empty()) fill_panels(program.right, matrix, ready + at.right);
  if (!program.left2.empty()) fill_rows(program.left2, matrix, ready + at.left2);
  if (!program.right2.empty()) fill_panels(program.right2, matrix, ready + at.right2);
  if (program.multiplier != nullptr)
    widen(*program.multiplier, 0, elements_of(program.multiplier), ready + at.multiplier);
  if (program.rotation != nullptr) fill_rotation(program, ready + at.rotation);
  if (program.turn != nullptr) prepare_turn(program, ready + at.turn);
  if (program.magnitude != nullptr)
    widen(*program.magnitude, 0, elements_of(program.magnitude), ready + at.magnitude);
}

template void prepare_merge(const MergeProgram& program, uint64_t matrix, float* ready);
template void prepare_merge(const MergeProgram& program, uint64_t matrix, double* ready);

}  // namespace tftf::transform
