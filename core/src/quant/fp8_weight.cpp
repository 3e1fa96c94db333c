#include "tftf/quant/fp8_weight.h"

#include <algorithm>

#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Where an element lies: matrix, row of it, column.
struct ElementPlace {
  uint64_t matrix = 0;
  uint64_t row = 0;
  uint64_t col = 0;
};

ElementPlace place_of(const Fp8Weight& weight, uint64_t element) {
  const uint64_t row = element / weight.cols;
  return {row / weight.rows, row % weight.rows, element % weight.cols};
}

uint64_t grid_row(const Fp8Weight& weight, const ElementPlace& place) {
  return place.matrix * weight.grid_rows + place.row / weight.block_rows;
}

}  // namespace

std::optional<Fp8Weight> fp8_weight(const Checkpoint& checkpoint, const QuantConfig& config,
                                    const QuantMatch& match) {
  const TensorRef* scales = match.layout == "fp8-block"         ? match.find("weight_scale_inv")
                            : match.layout == "deepseek-v4-fp8" ? match.find("scale")
                                                                : nullptr;
  if (scales == nullptr || match.block[0] == 0 || match.block[1] == 0) return std::nullopt;
  const JsonValue* semantics = config.get("weight_scale_semantics");
  if (semantics != nullptr && semantics->is_string() && semantics->text == "inverse") return std::nullopt;
  const TensorInfo &codes = checkpoint.info(match.weight), &grid = checkpoint.info(*scales);
  if (codes.shape.size() < 2 || grid.shape.size() != codes.shape.size() || !is_fp8(codes.dtype))
    return std::nullopt;
  const size_t leading = codes.shape.size() - 2;
  Fp8Weight weight;
  weight.codes = match.weight;
  weight.scales = *scales;
  weight.code_dtype = codes.dtype;
  weight.scale_dtype = grid.dtype;
  for (size_t i = 0; i < leading; ++i) weight.matrices *= codes.shape[i];
  weight.rows = codes.shape[leading];
  weight.cols = codes.shape[leading + 1];
  weight.block_rows = match.block[0];
  weight.block_cols = match.block[1];
  weight.grid_rows = grid.shape[leading];
  weight.grid_cols = grid.shape[leading + 1];
  if (ceil_div(weight.rows, weight.block_rows) > weight.grid_rows ||
      ceil_div(weight.cols, weight.block_cols) > weight.grid_cols)
    return std::nullopt;
  return weight;
}

ElementRun fp8_scales_of(const Fp8Weight& weight, ElementRun run) {
  const ElementPlace first = place_of(weight, run.first), last = place_of(weight, run.first + run.count - 1);
  const uint64_t top = grid_row(weight, first), bottom = grid_row(weight, last);
  if (first.matrix == last.matrix && first.row == last.row) {
    const uint64_t left = first.col / weight.block_cols;
    return {top * weight.grid_cols + left, last.col / weight.block_cols - left + 1};
  }
  return {top * weight.grid_cols, (bottom - top + 1) * weight.grid_cols};
}

void dequantize_fp8_run(const KernelTable& kernels, const Fp8Weight& weight, ElementRun held,
                        const std::vector<float>& scales, ElementRun run, const std::byte* codes, DType to,
                        std::byte* out) noexcept {
  const ElementRun grid = fp8_scales_of(weight, held);
  const uint64_t size = dtype_bits(to) / 8;
  const bool one_row =
      held.first / weight.cols == (held.first + held.count - 1) / weight.cols && held.count > 0;
  for (uint64_t done = 0; done < run.count;) {
    const ElementPlace at = place_of(weight, run.first + done);
    // What is left of this matrix.
    const uint64_t left = (weight.rows - at.row) * weight.cols - at.col;
    ScaledRun task{};
    task.from = weight.code_dtype;
    task.to = to;
    task.count = std::min(left, run.count - done);
    task.cols = weight.cols;
    task.block_rows = weight.block_rows;
    task.block_cols = weight.block_cols;
    task.col_stride = 1;
    if (one_row) {
      // The grid in hand begins at some column; the row becomes row 0 of a narrower matrix.
      task.scales = scales.data();
      task.first = at.col - grid.first % weight.grid_cols * weight.block_cols;
      task.cols = task.first + task.count;
    } else {
      task.scales = scales.data() + static_cast<size_t>(grid_row(weight, at) * weight.grid_cols - grid.first);
      task.row_stride = weight.grid_cols;
      task.first = at.row % weight.block_rows * weight.cols + at.col;
    }
    kernels.dequantize_f8(task, codes + static_cast<size_t>(done), out + static_cast<size_t>(done * size));
    done += task.count;
  }
}

}  // namespace tftf
