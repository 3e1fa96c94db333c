// Decomposing, stacking and adding pairs of factors, a module a step.
#include "transform/lowrank/factor_ops.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::lowrank {
namespace {

constexpr size_t kMostPairs = 64;

const FactorTask& task_of(const Item& item) { return *static_cast<const FactorTask*>(item.context.get()); }

uint64_t rounded(uint64_t bytes) { return ceil_div(bytes, kSlotAlign) * kSlotAlign; }

// Lower factors that a middle one has been multiplied into.
uint64_t contracted_bytes(const FactorTask& task) {
  uint64_t bytes = 0;
  for (const PairInput& pair : task.pairs)
    if (pair.has_mid) bytes += rounded(pair.rank * task.cols * sizeof(double));
  return bytes;
}

uint64_t vector_bytes(const FactorTask& task) {
  const uint64_t rank = task.rank();
  return rounded(rank * sizeof(double)) + 2 * rounded(task.most * rank * sizeof(double)) +
         rounded(2 * std::max(task.most, rank) * sizeof(double));
}

uint64_t task_scratch(const Item& item) {
  const FactorTask& task = task_of(item);
  return contracted_bytes(task) + vector_bytes(task) + rounded(low_rank_scratch(task.rank()).value_or(0));
}

// What is written needs its place beside the rest: a plan that promises less memory would break its word.
uint64_t measure_scratch(const Item& item) {
  const FactorTask& task = task_of(item);
  return task_scratch(item) + rounded(task.most * task.rows * dtype_bits(task.up_to) / 8) +
         rounded(task.most * task.cols * dtype_bits(task.down_to) / 8);
}

void task_io(const Item& item, uint64_t, const Tables&, StepIo& io) {
  for (const Extent& extent : item.in) io.in.push_back(extent);
  for (const Extent& extent : item.out) io.out.push_back(extent);
}

class FactorRun {
 public:
  FactorRun(const FactorTask& task, const KernelTable& kernels, const Slot& slot)
      : task_(task), kernels_(kernels), rank_(task.rank()) {
    std::byte* free = slot.scratch.data();
    const auto take = [&free](uint64_t elements) {
      auto* at = reinterpret_cast<double*>(free);
      free += rounded(elements * sizeof(double));
      return at;
    };
    values_ = take(rank_);
    left_ = take(task.most * rank_);
    right_ = take(task.most * rank_);
    factors_ = take(2 * std::max(task.most, rank_));
    size_t next = 0;
    count_ = task.pairs.size();
    for (size_t i = 0; i < count_; ++i) {
      const PairInput& pair = task.pairs[i];
      ups_[i] = {.data = slot.in[next++],
                 .dtype = pair.up_dtype,
                 .rank = pair.rank,
                 .rank_last = pair.up_rank_last,
                 .scale = pair.up_scale};
      downs_[i] = {.data = slot.in[next++],
                   .dtype = pair.down_dtype,
                   .rank = pair.rank,
                   .rank_last = pair.down_rank_last,
                   .scale = pair.down_scale};
      if (!pair.has_mid) continue;
      double* made = take(pair.rank * task.cols);
      contract(pair, slot.in[next++], downs_[i].data, made);
      downs_[i].data = reinterpret_cast<const std::byte*>(made);
      downs_[i].dtype = DType::F64;
    }
    up_ = {.parts = {ups_, count_}, .length = task.rows};
    down_ = {.parts = {downs_, count_}, .length = task.cols};
    scratch_ = {free, to_size(low_rank_scratch(rank_).value_or(0))};
  }

  // False: not finite.
  bool find() {
    const size_t vectors = to_size(task_.most * rank_);
    const LowRank into{
        .values = {values_, to_size(rank_)}, .left = {left_, vectors}, .right = {right_, vectors}};
    if (task_.memo != nullptr && task_.memo->there) {
      std::copy(task_.memo->values.begin(), task_.memo->values.end(), values_);
      std::copy(task_.memo->left.begin(), task_.memo->left.end(), left_);
      std::copy(task_.memo->right.begin(), task_.memo->right.end(), right_);
      return true;
    }
    if (!decompose(kernels_, up_, down_, scratch_, into)) return false;
    if (task_.memo != nullptr) {
      std::copy(values_, values_ + rank_, task_.memo->values.begin());
      std::copy(left_, left_ + vectors, task_.memo->left.begin());
      std::copy(right_, right_ + vectors, task_.memo->right.begin());
      task_.memo->there = true;
    }
    return true;
  }

  std::span<const double> values() const { return {values_, to_size(rank_)}; }

  uint64_t write(std::byte* up_out, std::byte* down_out) {
    if (task_.kind != FactorTask::Kind::kLowRank) {
      const bool sum = task_.kind == FactorTask::Kind::kSum;
      return write_stack(kernels_, up_, sum, task_.up_to, task_.up_rank_last, scratch_, up_out) +
             write_stack(kernels_, down_, sum, task_.down_to, task_.down_rank_last, scratch_, down_out);
    }
    // The values go to the upper factor, and of F16, whose range is small, their roots to both.
    const uint64_t kept = task_.kept;
    const bool shared = task_.up_to == DType::F16 || task_.down_to == DType::F16;
    double *up = factors_, *down = factors_ + kept;
    for (uint64_t i = 0; i < kept; ++i) {
      const double s = values_[i];
      up[i] = shared ? std::sqrt(s) : s;
      down[i] = s > 0 ? 1 / (shared ? std::sqrt(s) : s) : 0;
    }
    return write_factor(kernels_, up_, {left_, to_size(kept * rank_)}, {up, to_size(kept)}, task_.up_to,
                        task_.up_rank_last, scratch_, up_out) +
           write_factor(kernels_, down_, {right_, to_size(kept * rank_)}, {down, to_size(kept)},
                        task_.down_to, task_.down_rank_last, scratch_, down_out);
  }

 private:
  // made[p][c * X + x] = sum over q of mid[p][q][x] * down[q][c].
  void contract(const PairInput& pair, const std::byte* mid, const std::byte* down, double* made) const {
    const uint64_t inner = pair.down_rank, kernel = pair.kernel, columns = task_.cols / kernel;
    for (uint64_t p = 0; p < pair.rank; ++p) {
      double* row = made + p * task_.cols;
      std::fill(row, row + task_.cols, 0.0);
      for (uint64_t q = 0; q < inner; ++q)
        for (uint64_t x = 0; x < kernel; ++x) {
          const double m = element_as_f64(pair.mid_dtype, mid, (p * inner + q) * kernel + x);
          for (uint64_t c = 0; c < columns; ++c) {
            const double term = m * element_as_f64(pair.down_dtype, down, q * columns + c);
            row[c * kernel + x] += term;
          }
        }
    }
  }

  const FactorTask& task_;
  const KernelTable& kernels_;
  uint64_t rank_;
  double *values_ = nullptr, *left_ = nullptr, *right_ = nullptr, *factors_ = nullptr;
  FactorPart ups_[kMostPairs], downs_[kMostPairs];
  size_t count_ = 0;
  FactorStack up_, down_;
  std::span<std::byte> scratch_;
};

void measure_rank(const Item& item, uint64_t, const Tables&, const KernelTable& kernels, const Slot& slot,
                  Value& value) noexcept {
  const FactorTask& task = task_of(item);
  FactorRun run(task, kernels, slot);
  if (!run.find()) {
    value.n[1] = 1;
    return;
  }
  value.n[0] = choose_rank(task.choice, run.values(), std::min(task.rows, task.cols));
  value.x[0] = retained_norm(run.values(), value.n[0]);
}

void write_factors(const Item& item, uint64_t, const Tables&, const KernelTable& kernels, const Slot& slot,
                   Value& value) noexcept {
  const FactorTask& task = task_of(item);
  FactorRun run(task, kernels, slot);
  if (task.kind == FactorTask::Kind::kLowRank && !run.find()) {
    value.n[1] = 1;
    return;
  }
  value.n[0] = run.write(slot.out[0], slot.out[1]);
}

}  // namespace

uint64_t FactorTask::rank() const {
  uint64_t sum = 0;
  for (const PairInput& pair : pairs) sum += pair.rank;
  return sum;
}

const TileOp kMeasureRankOp{
    .id = "singular values", .io = task_io, .run = measure_rank, .scratch = measure_scratch};
const TileOp kWriteFactorsOp{.id = "factors", .io = task_io, .run = write_factors, .scratch = task_scratch};

}  // namespace tftf::lowrank
