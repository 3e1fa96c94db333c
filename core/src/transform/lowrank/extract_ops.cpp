// Differences of two weights, some rows at a time.
#include "transform/lowrank/extract_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf::lowrank {
namespace {

constexpr uint64_t kCompared = 256;

const DifferenceTask& difference_of(const Item& item) {
  return *static_cast<const DifferenceTask*>(item.context.get());
}

uint64_t bytes_of(DType dtype, uint64_t elements) { return elements * dtype_bits(dtype) / 8; }

void compare_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const uint64_t first = tile * item.units_per_tile,
                 count = std::min(item.units_per_tile, item.units - first);
  io.in.push_back(slice(item.in[0], bytes_of(item.in_dtype, first), bytes_of(item.in_dtype, count)));
  io.in.push_back(slice(item.in[1], bytes_of(item.out_dtype, first), bytes_of(item.out_dtype, count)));
}

void compare_run(const Item& item, uint64_t tile, const Tables&, const KernelTable& kernels, const Slot& slot,
                 Value& value) noexcept {
  const uint64_t first = tile * item.units_per_tile,
                 count = std::min(item.units_per_tile, item.units - first);
  const std::byte *tuned = slot.in[0], *original = slot.in[1];
  if (item.in_dtype == item.out_dtype &&
      std::memcmp(tuned, original, to_size(bytes_of(item.in_dtype, count))) == 0)
    return;
  if (!can_cast(item.in_dtype, DType::F64) || !can_cast(item.out_dtype, DType::F64)) {
    value.n[0] = count;
    return;
  }
  double x[kCompared], y[kCompared];
  for (uint64_t done = 0; done < count; done += kCompared) {
    const uint64_t some = std::min(kCompared, count - done);
    cast(kernels, item.in_dtype, DType::F64, tuned + bytes_of(item.in_dtype, done),
         reinterpret_cast<std::byte*>(x), some);
    cast(kernels, item.out_dtype, DType::F64, original + bytes_of(item.out_dtype, done),
         reinterpret_cast<std::byte*>(y), some);
    for (uint64_t i = 0; i < some; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
        ++value.n[1];
      } else if (x[i] != y[i]) {
        ++value.n[0];
      }
    }
  }
}

// Rows [first, first + count) of both.
void rows_io(const Item& item, uint64_t first, uint64_t count, StepIo& io) {
  const DifferenceTask& task = difference_of(item);
  const uint64_t cols = task.shape.cols;
  io.in.push_back(slice(item.in[0], bytes_of(task.tuned, first * cols), bytes_of(task.tuned, count * cols)));
  io.in.push_back(
      slice(item.in[1], bytes_of(task.original, first * cols), bytes_of(task.original, count * cols)));
}

// Their difference, in the scratch; gives what is free behind it.
double* difference_rows(const DifferenceTask& task, const KernelTable& kernels, const Slot& slot,
                        uint64_t count, double*& matrix) {
  const uint64_t elements = count * task.shape.cols;
  matrix = reinterpret_cast<double*>(slot.scratch.data());
  cast(kernels, task.tuned, DType::F64, slot.in[0], reinterpret_cast<std::byte*>(matrix), elements);
  double y[kCompared];
  for (uint64_t done = 0; done < elements; done += kCompared) {
    const uint64_t some = std::min(kCompared, elements - done);
    cast(kernels, task.original, DType::F64, slot.in[1] + bytes_of(task.original, done),
         reinterpret_cast<std::byte*>(y), some);
    for (uint64_t i = 0; i < some; ++i) matrix[done + i] -= y[i];
  }
  return matrix + ceil_div(task.shape.piece * task.shape.cols, 8) * 8;
}

struct PieceRows {
  uint64_t first, count;
};
PieceRows rows_of_piece(const SubspaceShape& shape, uint64_t piece) {
  const uint64_t first = piece % shape.pieces() * shape.piece;
  return {first, std::min(shape.piece, shape.rows - first)};
}

uint64_t rows_scratch(const Item& item) {
  const SubspaceShape& shape = difference_of(item).shape;
  return (ceil_div(shape.piece * shape.cols, 8) * 8 + subspace_scratch(shape) +
          ceil_div(shape.kept * shape.piece, 8) * 8 + ceil_div(shape.kept, 8) * 8) *
         sizeof(double);
}

void subspace_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const PieceRows rows = rows_of_piece(difference_of(item).shape, tile);
  rows_io(item, rows.first, rows.count, io);
}

void subspace_run(const Item& item, uint64_t tile, const Tables&, const KernelTable& kernels,
                  const Slot& slot, Value&) noexcept {
  const DifferenceTask& task = difference_of(item);
  double* matrix = nullptr;
  const uint64_t count = rows_of_piece(task.shape, tile).count;
  double* free = difference_rows(task, kernels, slot, count, matrix);
  add_piece(kernels, task.shape, tile, matrix, count, reinterpret_cast<double*>(slot.out[0]), free);
}

// F16 has so small a range that both factors share the singular values.
double up_share(const DifferenceTask& task, double s) {
  return task.to != DType::F16 ? 1 : s > 0 ? 1 / std::sqrt(s) : 0;
}
double down_share(const DifferenceTask& task, double s) { return task.to != DType::F16 ? 1 : std::sqrt(s); }

void upper_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const DifferenceTask& task = difference_of(item);
  const PieceRows rows = rows_of_piece(task.shape, tile);
  rows_io(item, rows.first, rows.count, io);
  io.out.push_back(slice(item.out[0], bytes_of(task.to, rows.first * task.shape.kept),
                         bytes_of(task.to, rows.count * task.shape.kept)));
}

void upper_run(const Item& item, uint64_t tile, const Tables&, const KernelTable& kernels, const Slot& slot,
               Value& value) noexcept {
  const DifferenceTask& task = difference_of(item);
  const uint64_t kept = task.shape.kept;
  const auto* state = reinterpret_cast<const double*>(slot.residents[0].data());
  double* matrix = nullptr;
  const uint64_t count = rows_of_piece(task.shape, tile).count;
  double* made = difference_rows(task, kernels, slot, count, matrix);
  double* line = made + ceil_div(kept * task.shape.piece, 8) * 8;
  project_rows(kernels, task.shape, state, matrix, count, made, count, line + ceil_div(kept, 8) * 8);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t k = 0; k < kept; ++k) line[k] = made[k * count + i] * up_share(task, state[k]);
    value.n[0] += cast(kernels, DType::F64, task.to, reinterpret_cast<const std::byte*>(line),
                       slot.out[0] + bytes_of(task.to, i * kept), kept);
  }
}

void lower_io(const Item& item, uint64_t, const Tables&, StepIo& io) { io.out.push_back(item.out[0]); }

void lower_run(const Item& item, uint64_t, const Tables&, const KernelTable& kernels, const Slot& slot,
               Value& value) noexcept {
  const DifferenceTask& task = difference_of(item);
  const uint64_t cols = task.shape.cols;
  const auto* state = reinterpret_cast<const double*>(slot.residents[0].data());
  const double* vectors = state + vectors_at(task.shape);
  double line[kCompared];
  for (uint64_t k = 0; k < task.shape.kept; ++k) {
    const double share = down_share(task, state[k]);
    for (uint64_t done = 0; done < cols; done += kCompared) {
      const uint64_t some = std::min(kCompared, cols - done);
      for (uint64_t j = 0; j < some; ++j) line[j] = vectors[k * cols + done + j] * share;
      value.n[0] += cast(kernels, DType::F64, task.to, reinterpret_cast<const std::byte*>(line),
                         slot.out[0] + bytes_of(task.to, k * cols + done), some);
    }
  }
}

}  // namespace

uint64_t subspace_bytes(const DifferenceTask& task) { return subspace_state(task.shape) * sizeof(double); }

const TileOp kDifferenceOp{.id = "difference", .io = compare_io, .run = compare_run};
const TileOp kSubspaceOp{.id = "subspace", .io = subspace_io, .run = subspace_run, .scratch = rows_scratch};
const TileOp kUpperFactorOp{.id = "upper factor", .io = upper_io, .run = upper_run, .scratch = rows_scratch};
const TileOp kLowerFactorOp{.id = "lower factor", .io = lower_io, .run = lower_run};

}  // namespace tftf::lowrank
