// The stage that adds an adapter's change to a weight.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "merge_blocks.h"
#include "merge_factors.h"
#include "merge_rectangles.h"
#include "merge_turns.h"
#include "stage.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"
#include "tftf/simd/product.h"

namespace tftf::transform {
namespace {

constexpr uint64_t kLargestPiece = 131072;
constexpr double kSmallestNorm = 1e-8;

std::string merge_word(const Stage& stage) { return "merge " + stage.merge->word; }
uint64_t merge_unit(const Stage& stage) { return std::max<uint64_t>(stage.merge->unit(), 1); }

uint64_t merge_piece(const Stage& stage) {
  const uint64_t cols = std::max<uint64_t>(stage.merge->cols, 1);
  if (cols > kLargestPiece) return kBlockElements;
  return cols * std::clamp<uint64_t>(kBlockElements / cols, 1, kBlockRows);
}

uint64_t merge_scratch(const Stage& stage, const Item&, uint64_t) {
  if (is_plain(stage)) return 0;
  const MergeProgram& program = *stage.merge;
  uint64_t bytes = 3 * bytes_for(block_elements(program), wide_bytes(stage));
  if (program.delta == MergeProgram::Delta::kKronecker) {
    const KroneckerShape k = kronecker_shape(program);
    bytes += bytes_for(k.cols1, wide_bytes(stage)) + bytes_for(k.cols2, wide_bytes(stage));
  }
  return bytes;
}

uint64_t merge_ready_bytes(const Stage& stage) {
  return bytes_for(merge_layout(*stage.merge).total, wide_bytes(stage));
}

void merge_prepare(const Stage& stage, uint64_t matrix, std::byte* ready) noexcept {
  if (is_wide(stage)) {
    prepare_merge(*stage.merge, matrix, reinterpret_cast<double*>(ready));
  } else {
    prepare_merge(*stage.merge, matrix, reinterpret_cast<float*>(ready));
  }
}

template <class T>
double sum_squares(const KernelTable& kernels, const T* x, uint64_t count) {
  if constexpr (sizeof(T) == 4) {
    return kernels.sum_squares_f32(x, count);
  } else {
    (void)kernels;
    double sum = 0;
    for (uint64_t i = 0; i < count; ++i) sum += x[i] * x[i];
    return sum;
  }
}

template <class T>
class MergeRun {
 public:
  MergeRun(const Stage& stage, const TileView& view)
      : stage_(stage),
        program_(*stage.merge),
        kernels_(*view.kernels),
        view_(view),
        at_(merge_layout(program_)) {
    const uint64_t block = bytes_for(block_elements(program_), sizeof(T));
    x_ = reinterpret_cast<T*>(view.scratch);
    delta_ = reinterpret_cast<T*>(view.scratch + block);
    other_ = reinterpret_cast<T*>(view.scratch + 2 * block);
    std::byte* free = view.scratch + 3 * block;
    if (program_.delta == MergeProgram::Delta::kKronecker) {
      kronecker_ = kronecker_shape(program_);
      one_.values = reinterpret_cast<T*>(free);
      free += bytes_for(kronecker_.cols1, sizeof(T));
      two_.values = reinterpret_cast<T*>(free);
      free += bytes_for(kronecker_.cols2, sizeof(T));
    }
  }

  uint64_t run(ElementRange piece, const std::byte* in, std::byte* out) {
    in_ = in;
    out_ = out;
    if (is_plain(stage_)) {
      each_rectangle(program_, piece, program_.rows, [this](const Rectangle& r) { merge_rectangle(r); });
      canonicalise(piece.count);
      return lost_;
    }
    each_rectangle(program_, piece, kBlockRows, [this](const Rectangle& r) {
      for_strips(program_, r, block_elements(program_), [this](const Rectangle& strip) {
        work(strip);
        if (view_.gathering != nullptr) return add_squares(strip);
        if (program_.by_columns()) {
          bring_columns(strip);
        } else if (program_.magnitude != nullptr) {
          bring_rows(strip);
        }
        finish(strip);
      });
    });
    if (view_.gathering == nullptr) canonicalise(piece.count);
    return lost_;
  }

  // Sums of squares become what columns are multiplied by; behind them, whether a norm was clamped.
  void make_factors() const {
    auto* values = reinterpret_cast<double*>(view_.gathering);
    const uint64_t matrices = view_.item->arg[1], cols = program_.cols;
    bool clamped = false;
    for (uint64_t matrix = 0; matrix < matrices; ++matrix) {
      const T* magnitude = ready(matrix) + at_.magnitude;
      for (uint64_t j = 0; j < cols; ++j) {
        double& value = values[matrix * cols + j];
        value = static_cast<double>(factor(value, magnitude[j], clamped));
      }
    }
    values[matrices * cols] = clamped ? 1 : 0;
  }

 private:
  // A row of a Kronecker factor, kept while the next rows need it again.
  struct KroneckerRow {
    T* values = nullptr;
    uint64_t matrix = UINT64_MAX, row = UINT64_MAX;
  };

  const T* ready(uint64_t matrix) const {
    return reinterpret_cast<const T*>(view_.ready + matrix * merge_ready_bytes(stage_));
  }

  PanelProduct<T> product_task(const Rectangle& r, uint64_t left, uint64_t right,
                               const Factor& factor) const {
    PanelProduct<T> task;
    task.rank = factor.cols;
    task.panels = ready(r.matrix) + right;
    task.b = ready(r.matrix) + left + r.row * factor.cols;
    task.b_stride = factor.cols;
    task.rows = r.rows;
    task.col_begin = r.begin;
    task.col_end = r.end;
    return task;
  }

  uint64_t in_bytes() const { return dtype_bits(stage_.from) / 8; }
  uint64_t out_bytes() const { return dtype_bits(stage_.to) / 8; }

  void merge_rectangle(const Rectangle& r) {
    const PanelProduct<T> task = product_task(r, at_.left, at_.right, program_.left);
    const std::byte* w = in_ + r.at * in_bytes();
    std::byte* to = out_ + r.at * out_bytes();
    if constexpr (sizeof(T) == 4) {
      lost_ += merge_product(kernels_, task, stage_.from, stage_.to, static_cast<float>(program_.scale), w,
                             to, program_.cols);
    } else {
      lost_ += merge_product(kernels_, task, program_.scale, w, to, program_.cols);
    }
  }

  void product(PanelProduct<T> task, T* out, uint64_t stride) const {
    task.out = out;
    task.out_stride = stride;
    if constexpr (sizeof(T) == 4) {
      kernels_.product_f32(task);
    } else {
      kernels_.product_f64(task);
    }
  }

  // The rectangle in T with everything done to it but the magnitude: in x_, rows back to back.
  void work(const Rectangle& r) {
    const uint64_t width = r.width();
    for (uint64_t i = 0; i < r.rows; ++i) {
      cast(kernels_, stage_.from, sizeof(T) == 4 ? DType::F32 : DType::F64,
           in_ + (r.at + i * program_.cols) * in_bytes(), reinterpret_cast<std::byte*>(x_ + i * width),
           width);
    }
    add_delta(r);
    const bool multiplied_last = program_.turn_kind == MergeProgram::Turn::kButterfly;
    if (program_.multiplier != nullptr && !multiplied_last) multiply(r);
    if (program_.rotation != nullptr) rotate(r);
    if (program_.turn != nullptr) turn(r);
    if (program_.multiplier != nullptr && multiplied_last) multiply(r);
  }

  void add_delta(const Rectangle& r) {
    using Delta = MergeProgram::Delta;
    const uint64_t count = r.rows * r.width();
    switch (program_.delta) {
      case Delta::kNone:
        return;
      case Delta::kProduct:
        product(product_task(r, at_.left, at_.right, program_.left), delta_, r.width());
        break;
      case Delta::kHadamard:
        product(product_task(r, at_.left, at_.right, program_.left), delta_, r.width());
        product(product_task(r, at_.left2, at_.right2, program_.left2), other_, r.width());
        for (uint64_t i = 0; i < count; ++i) delta_[i] *= other_[i];
        break;
      case Delta::kKronecker:
        for (uint64_t i = 0; i < r.rows; ++i) {
          if (program_.kronecker_stack != 0) {
            stacked_kronecker(r, r.row + i, delta_ + i * r.width());
          } else {
            kronecker(r, r.row + i, delta_ + i * r.width());
          }
        }
        break;
      case Delta::kTiled:
        for (uint64_t i = 0; i < r.rows; ++i) tile(r, r.row + i, delta_ + i * r.width());
        break;
    }
    const T s = static_cast<T>(program_.scale);
    for (uint64_t i = 0; i < count; ++i) {
      const T scaled = s * delta_[i];
      x_[i] += scaled;
    }
  }

  // A row of one of the two factors: as it is stored, the product of its own two, or the number 1.
  const T* kronecker_row(uint64_t matrix, const Factor& left, uint64_t left_at, const Factor& right,
                         uint64_t right_at, uint64_t row, KroneckerRow& made) const {
    static constexpr T kOne = 1;
    if (left.empty()) return &kOne;
    if (right.empty()) return ready(matrix) + left_at + row * left.cols;
    if (made.row == row && made.matrix == matrix) return made.values;
    PanelProduct<T> task;
    task.rank = left.cols;
    task.panels = ready(matrix) + right_at;
    task.b = ready(matrix) + left_at + row * left.cols;
    task.b_stride = left.cols;
    task.rows = 1;
    task.col_end = right.cols;
    product(task, made.values, right.cols);
    made.row = row;
    made.matrix = matrix;
    return made.values;
  }

  void kronecker(const Rectangle& r, uint64_t row, T* to) {
    const T* one = kronecker_row(r.matrix, program_.left, at_.left, program_.right, at_.right,
                                 row / kronecker_.rows2, one_);
    const T* two = kronecker_row(r.matrix, program_.left2, at_.left2, program_.right2, at_.right2,
                                 row % kronecker_.rows2, two_);
    for (uint64_t column = r.begin; column < r.end;) {
      const uint64_t b = column / kronecker_.cols2, d = column % kronecker_.cols2;
      const uint64_t run = std::min(kronecker_.cols2 - d, r.end - column);
      for (uint64_t j = 0; j < run; ++j) *to++ = one[b] * two[d + j];
      column += run;
    }
  }

  // Matrix m of the stack is kron(one, two[m]), and the weight's elements are those of all, one behind the other.
  void stacked_kronecker(const Rectangle& r, uint64_t row, T* to) {
    const uint64_t rows2 = program_.left2.rows / program_.kronecker_stack, cols2 = kronecker_.cols2;
    const uint64_t cols = kronecker_.cols1 * cols2, rows = kronecker_.rows1 * rows2;
    for (uint64_t column = r.begin; column < r.end;) {
      const uint64_t at = row * program_.cols + column;
      const uint64_t made_row = at / cols % rows, made_column = at % cols, d = made_column % cols2;
      const T* one =
          kronecker_row(r.matrix, program_.left, at_.left, program_.right, at_.right, made_row / rows2, one_);
      const T* two = ready(r.matrix) + at_.left2 + (at / cols / rows * rows2 + made_row % rows2) * cols2;
      const uint64_t run = std::min(cols2 - d, r.end - column);
      for (uint64_t j = 0; j < run; ++j) *to++ = one[made_column / cols2] * two[d + j];
      column += run;
    }
  }

  void tile(const Rectangle& r, uint64_t row, T* to) const {
    const Factor& tile = program_.left;
    const T* from = ready(r.matrix) + at_.left + row % tile.rows * tile.cols;
    for (uint64_t column = r.begin; column < r.end; ++column) *to++ = from[column % tile.cols];
  }

  void multiply(const Rectangle& r) {
    const T* by = ready(r.matrix) + at_.multiplier;
    const uint64_t run = program_.multiplier_run;
    T* x = x_;
    for (uint64_t i = 0; i < r.rows; ++i)
      for (uint64_t j = r.begin; j < r.end; ++j)
        *x++ *= by[program_.multiplies_rows ? r.row + i : run == 1 ? j : j / run];
  }

  // Rows are whole here, too.
  void turn(const Rectangle& r) {
    const T* ready_turn = ready(r.matrix) + at_.turn;
    for (uint64_t i = 0; i < r.rows; ++i)
      turn_row(program_, ready_turn, r.row + i, x_ + i * program_.cols, delta_);
  }

  // Rows are whole here.
  void rotate(const Rectangle& r) {
    const uint64_t n = program_.block_size, cols = program_.cols;
    const T* blocks = ready(r.matrix) + at_.rotation;
    for (uint64_t i = 0; i < r.rows; ++i) {
      T* row = x_ + i * cols;
      for (uint64_t block = 0; block < cols / n; ++block) {
        const T* m = blocks + (program_.rotation_shared ? 0 : block) * n * n;
        T* out = delta_ + block * n;
        std::fill(out, out + n, T{0});
        for (uint64_t k = 0; k < n; ++k) {
          const T w = row[block * n + k];
          for (uint64_t j = 0; j < n; ++j) out[j] += w * m[k * n + j];
        }
      }
      std::copy(delta_, delta_ + cols, row);
    }
  }

  T factor(double squares, T magnitude, bool& clamped) const {
    T norm = static_cast<T>(std::sqrt(squares));
    if (norm < static_cast<T>(kSmallestNorm)) {
      norm = static_cast<T>(kSmallestNorm);
      clamped = true;
    }
    return magnitude / norm;
  }

  void bring_rows(const Rectangle& r) {
    const T* magnitude = ready(r.matrix) + at_.magnitude;
    bool clamped = false;
    for (uint64_t i = 0; i < r.rows; ++i) {
      T* row = x_ + i * program_.cols;
      const T f = factor(sum_squares(kernels_, row, program_.cols), magnitude[r.row + i], clamped);
      for (uint64_t j = 0; j < program_.cols; ++j) row[j] *= f;
    }
    if (clamped) view_.value->x[0] = 1;
  }

  // Rows come in order, so that each column's sum does not depend on tiles.
  void add_squares(const Rectangle& r) const {
    auto* sums = reinterpret_cast<double*>(view_.gathering) + r.matrix * program_.cols;
    const T* x = x_;
    for (uint64_t i = 0; i < r.rows; ++i)
      for (uint64_t j = r.begin; j < r.end; ++j, ++x)
        sums[j] += static_cast<double>(*x) * static_cast<double>(*x);
  }

  void bring_columns(const Rectangle& r) {
    const auto* factors = reinterpret_cast<const double*>(view_.gathered);
    T* x = x_;
    for (uint64_t i = 0; i < r.rows; ++i)
      for (uint64_t j = r.begin; j < r.end; ++j, ++x)
        *x *= static_cast<T>(factors[r.matrix * program_.cols + j]);
    if (factors[view_.item->arg[1] * program_.cols] != 0) view_.value->x[0] = 1;
  }

  // Rounds x_ into the output; rows that are replaced come from the adapter.
  void finish(const Rectangle& r) {
    const uint64_t width = r.width();
    for (uint64_t i = 0; i < r.rows; ++i) {
      const uint64_t at = r.at + i * program_.cols;
      std::byte* to = out_ + at * out_bytes();
      if (!set_row(r, r.row + i, to))
        cast(kernels_, sizeof(T) == 4 ? DType::F32 : DType::F64, stage_.to,
             reinterpret_cast<const std::byte*>(x_ + i * width), to, width);
      count_lost(in_ + at * in_bytes(), to, width);
    }
  }

  bool set_row(const Rectangle& r, uint64_t row, std::byte* to) const {
    if (program_.set_rows == nullptr) return false;
    const auto& numbers = program_.set_row_numbers;
    const auto found =
        std::lower_bound(numbers.begin(), numbers.end(), std::pair<uint64_t, uint64_t>(row, 0));
    if (found == numbers.end() || found->first != row) return false;
    const TensorData& rows = *program_.set_rows;
    const uint64_t first = found->second * program_.cols + r.begin;
    cast(kernels_, rows.dtype, stage_.to, rows.bytes.data() + first * (dtype_bits(rows.dtype) / 8), to,
         r.width());
    return true;
  }

  void count_lost(const std::byte* was, const std::byte* is, uint64_t count) {
    Scan seen;
    kernels_.scan(stage_.to, is, 0, count, seen);
    if (seen.nan + seen.inf == 0) return;
    for (uint64_t i = 0; i < count; ++i) {
      if (!std::isfinite(element_as_f64(stage_.to, is, i)) &&
          std::isfinite(element_as_f64(stage_.from, was, i)))
        ++lost_;
    }
  }

  // Which NaN a sum gives depends on the processor: one is written for all.
  void canonicalise(uint64_t count) const {
    Scan seen;
    kernels_.scan(stage_.to, out_, 0, count, seen);
    if (seen.nan != 0) canonicalise_nan(stage_.to, out_, count);
  }

  const Stage& stage_;
  const MergeProgram& program_;
  const KernelTable& kernels_;
  const TileView& view_;
  MergeLayout at_;
  KroneckerShape kronecker_;
  KroneckerRow one_, two_;
  T *x_ = nullptr, *delta_ = nullptr, *other_ = nullptr;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  uint64_t lost_ = 0;
};

uint64_t merge_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                   std::byte* out) noexcept {
  const uint64_t lost = is_wide(stage) ? MergeRun<double>(stage, view).run(piece, in, out)
                                       : MergeRun<float>(stage, view).run(piece, in, out);
  if (stage.allow_nonfinite) return lost;
  view.value->n[3] += lost;
  return 0;
}

uint64_t merge_gathered_bytes(const Stage& stage, uint64_t matrices) {
  return stage.merge->by_columns() ? (matrices * stage.merge->cols + 1) * sizeof(double) : 0;
}

void merge_gathered(const Stage& stage, const TileView& view) noexcept {
  if (is_wide(stage)) {
    MergeRun<double>(stage, view).make_factors();
  } else {
    MergeRun<float>(stage, view).make_factors();
  }
}

}  // namespace

const StageOp kMergeStage{.word = merge_word,
                          .run = merge_run,
                          .scratch = merge_scratch,
                          .unit = merge_unit,
                          .piece = merge_piece,
                          .ready_bytes = merge_ready_bytes,
                          .prepare = merge_prepare,
                          .gathered_bytes = merge_gathered_bytes,
                          .gathered = merge_gathered};

}  // namespace tftf::transform
