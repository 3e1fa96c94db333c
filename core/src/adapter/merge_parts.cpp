#include "adapter/merge_parts.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf::merging {

uint64_t product(const Shape& shape, size_t first) {
  uint64_t count = 1;
  for (size_t d = first; d < shape.size(); ++d) count *= shape[d];
  return count;
}

// The shortest digits that name the value, whatever the locale.
std::string short_number(double value) { return OrderedJson(value).dump(); }

Error shape_error(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                  const std::string& what) {
  std::string shapes;
  for (const auto& [part, tensor] : parts.parts) {
    shapes += (shapes.empty() ? "" : ", ") + std::string(peft_part_name(part)) + " " +
              shape_text(tensor->data.shape);
  }
  return form_error(ErrorCode::kRefusedShape, context, parts.first_name(),
                    "does not fit " + quote_name(base.name) + " of shape " + shape_text(*base.shape) + ": " +
                        what + " (" + shapes + ")",
                    shape_text(*base.shape), shapes);
}

std::shared_ptr<MergeProgram> new_program(const FormContext& context, const Shape& shape) {
  auto program = std::make_shared<MergeProgram>();
  program->adapter = context.adapter;
  program->rows = shape.size() < 2 ? 1 : shape[0];
  program->cols = shape.size() < 2 ? product(shape, 0) : product(shape, 1);
  return program;
}

// Factors as they are stored, and transposed.
Factor plain(const TensorData* tensor, uint64_t rows, uint64_t cols) {
  return {.tensor = tensor, .rows = rows, .cols = cols, .row_step = cols, .col_step = 1};
}
Factor flipped(const TensorData* tensor, uint64_t rows, uint64_t cols) {
  return {.tensor = tensor, .rows = rows, .cols = cols, .row_step = 1, .col_step = rows};
}

Factor transposed(Factor f) {
  std::swap(f.rows, f.cols);
  std::swap(f.row_step, f.col_step);
  std::swap(f.row_scale, f.col_scale);
  return f;
}

bool is_tucker_core(const Shape& core, const Shape& weight) {
  Shape kernel(weight.begin() + static_cast<ptrdiff_t>(std::min<size_t>(weight.size(), 2)), weight.end());
  const Shape is(core.begin() + static_cast<ptrdiff_t>(std::min<size_t>(core.size(), 2)), core.end());
  if (core.size() < 3 || weight.size() < 3) return false;
  if (is == kernel) return true;
  kernel.push_back(1);
  return weight.size() == 3 && is == kernel;
}

// The configured rank and the tensors' must agree.
Result<void> check_rank(const FormContext& context, const ModuleParts& parts, std::string_view path,
                        uint64_t rank) {
  if (rank == 0) {
    return form_error(ErrorCode::kRefusedShape, context, parts.first_name(), "has rank 0", "at least 1", "0");
  }
  if (!context.config().present) return {};
  auto configured = context.targeting->rank(path);
  if (!configured) return std::move(configured).error();
  const int64_t expected = configured->value_or(kDefaultRank);
  if (static_cast<uint64_t>(expected) == rank) return {};
  return form_error(ErrorCode::kRefusedShape, context, parts.first_name(),
                    "has rank " + std::to_string(rank) + ", and " + quote_name(context.config().file) +
                        " says " + std::to_string(expected),
                    std::to_string(expected), std::to_string(rank));
}

Result<double> scale_of(const FormContext& context, std::string_view path, uint64_t rank) {
  auto scale = context.targeting->scale(path, rank);
  if (!scale) return scale;
  return context.options->scale * *scale;
}

// Rank, scale and the program's word.
Result<void> set_scale(const FormContext& context, const ModuleParts& parts, std::string_view path,
                       uint64_t rank, std::string_view form, MergeProgram& program) {
  TFTF_TRY(check_rank(context, parts, path, rank));
  auto scale = scale_of(context, path, rank);
  if (!scale) return std::move(scale).error();
  program.scale = *scale;
  program.word = std::string(form) + " r=" + std::to_string(rank) + " s=" + short_number(*scale);
  return {};
}

Result<void> add_magnitude(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                           bool of_rows, MergeProgram& program) {
  const TensorData* magnitude = parts.find(PeftPart::kMagnitude);
  if (magnitude == nullptr) return {};
  const uint64_t expected = of_rows ? program.rows : program.cols;
  if (product(magnitude->shape, 0) != expected)
    return shape_error(context, parts, base, "the magnitude needs " + std::to_string(expected) + " values");
  program.magnitude = magnitude;
  program.magnitude_of_rows = of_rows;
  program.word = "dora" + program.word.substr(program.word.find(' '));
  return {};
}

bool ones_after(const Shape& shape, size_t first) {
  return std::all_of(shape.begin() + static_cast<ptrdiff_t>(std::min(first, shape.size())), shape.end(),
                     [](uint64_t n) { return n == 1; });
}

bool same_from(const Shape& a, const Shape& b, size_t first) {
  return a.size() == b.size() && a.size() >= first &&
         std::equal(a.begin() + static_cast<ptrdiff_t>(first), a.end(),
                    b.begin() + static_cast<ptrdiff_t>(first));
}

const TensorData* ModuleParts::find(PeftPart part) const {
  const auto at = parts.find(part);
  return at == parts.end() ? nullptr : &at->second->data;
}

Error form_error(ErrorCode code, const FormContext& context, std::string_view tensor, std::string what,
                 std::string expected, std::string found) {
  return {.code = code,
          .message = "Adapter tensor " + quote_name(tensor) + " of " + quote_name(context.adapter->file) +
                     " " + std::move(what) + ".",
          .file = context.adapter->file,
          .tensor = std::string(tensor),
          .expected = std::move(expected),
          .found = std::move(found)};
}

}  // namespace tftf::merging

namespace tftf {

uint64_t MergeProgram::unit() const {
  if (rotation != nullptr || turn != nullptr || (magnitude != nullptr && magnitude_of_rows)) return cols;
  return 1;
}

}  // namespace tftf
