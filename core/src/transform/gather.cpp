// Geometry of gathers.
#include "gather.h"

namespace tftf::transform {

std::string GatherForm::word() const {
  std::string text = "gather " + std::to_string(matrices) + "x";
  if (per_matrix > 1)
    text += std::to_string(per_matrix) + (across ? " columns of " : " rows of ") +
            (interleaved ? "interleaved " : "");
  text += "[" + std::to_string(rows) + "," + std::to_string(cols) + "]/" + std::to_string(row_stride);
  if (turned()) text += "," + std::to_string(col_stride) + " turned";
  return text;
}

Result<GatherForm> rows_form(const Shape& shape, DType dtype, size_t axis) {
  const uint32_t bits = dtype_bits(dtype);
  GatherForm form{.rows = shape.size() > axis ? shape[axis] : 1, .element_bytes = bits < 8 ? 1 : bits / 8};
  const size_t behind = std::min(shape.size(), axis + 1);
  const auto inner = element_count(Shape(shape.begin() + static_cast<ptrdiff_t>(behind), shape.end()));
  const auto all = element_count(shape);
  const auto bytes = inner && all ? byte_count(*inner, dtype) : std::nullopt;
  if (!bytes)
    return Error{.code = ErrorCode::kRefusedShape, .message = "its rows are no whole bytes, or too many"};
  form.cols = *bytes / form.element_bytes;
  form.row_stride = form.cols;
  return form;
}

BlockRuns runs_of(const GatherForm& form, const LaneBlock& block) {
  BlockRuns runs{.first = block.row * form.row_stride + block.col * form.col_stride};
  if (form.turned()) {
    runs.outer = block.cols;
    runs.stride = form.col_stride;
    runs.inner = block.rows;
    runs.step = form.row_stride;
  } else if (form.row_stride == block.cols || block.rows == 1) {
    runs.outer = 1;
    runs.inner = block.rows * block.cols;
  } else {
    runs.outer = block.rows;
    runs.stride = form.row_stride;
    runs.inner = block.cols;
  }
  return runs;
}

}  // namespace tftf::transform
