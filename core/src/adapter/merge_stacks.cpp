// Programs of pairs that PEFT has made for parameters: stacked matrices, one pair for all of them.
#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"

namespace tftf::merging {
namespace {

// A pair of a stack: A (E * r, in) with the matrix outermost, B (out, r * E) with the matrix innermost.
struct StackPair {
  const TensorData *a = nullptr, *b = nullptr;
  uint64_t matrices = 0, rank = 0, in = 0, out = 0;
  bool sound() const { return rank != 0; }

  Factor factor_a() const {
    return {.tensor = a, .rows = rank, .cols = in, .row_step = in, .col_step = 1, .matrix_step = rank * in};
  }
  Factor factor_b() const {
    return {.tensor = b,
            .rows = out,
            .cols = rank,
            .row_step = rank * matrices,
            .col_step = matrices,
            .matrix_step = 1};
  }
};

StackPair stack_pair(const ModuleParts& parts, uint64_t matrices) {
  StackPair pair{.a = parts.find(PeftPart::kLoraA), .b = parts.find(PeftPart::kLoraB)};
  const bool fits = pair.a != nullptr && pair.b != nullptr && pair.a->shape.size() == 2 &&
                    pair.b->shape.size() == 2 && pair.a->shape[0] == pair.b->shape[1] && matrices != 0 &&
                    pair.a->shape[0] % matrices == 0;
  if (!fits) return pair;
  pair.matrices = matrices;
  pair.rank = pair.a->shape[0] / matrices;
  pair.in = pair.a->shape[1];
  pair.out = pair.b->shape[0];
  return pair;
}

void set_product(const StackPair& pair, bool turned, MergeProgram& program) {
  program.delta = MergeProgram::Delta::kProduct;
  program.left = turned ? transposed(pair.factor_a()) : pair.factor_b();
  program.right = turned ? transposed(pair.factor_b()) : pair.factor_a();
}

Result<void> check_plain(const FormContext& context, const ModuleParts& parts) {
  if (!parts.has(PeftPart::kMagnitude) && !parts.has(PeftPart::kLoraBBias)) return {};
  return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                    "is of a parameter, for which PEFT knows neither magnitude nor bias");
}

}  // namespace

Program parameter_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path, bool turned) {
  const Shape& w = *base.shape;
  if (w.size() != 2 && w.size() != 3) return shape_error(context, parts, base, "a pair needs matrices");
  const StackPair pair = stack_pair(parts, w.size() == 3 ? w[0] : 1);
  auto program = new_program(context, w);
  program->rows = w[w.size() - 2];
  program->cols = w[w.size() - 1];
  program->matrices = pair.matrices;
  if (!pair.sound() || program->rows != (turned ? pair.in : pair.out) ||
      program->cols != (turned ? pair.out : pair.in))
    return shape_error(context, parts, base, "B * A has another shape");
  TFTF_TRY(check_plain(context, parts));
  set_product(pair, turned, *program);
  TFTF_TRY(set_scale(context, parts, path, pair.rank, "lora", *program));
  return program;
}

Program expert_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                       std::string_view path, const ExpertRows& rows) {
  const StackPair pair = stack_pair(parts, rows.matrices);
  if (!pair.sound() || base.shape->size() != 2)
    return shape_error(context, parts, base, "the pair is no stack of " + std::to_string(rows.matrices));
  auto program = new_program(context, *base.shape);
  set_product(pair, rows.turned, *program);
  Factor& left = program->left;
  Factor& right = program->right;
  const uint64_t last = rows.row + (program->rows == 0 ? 0 : (program->rows - 1) * rows.step);
  if (program->cols != right.cols || last >= left.rows)
    return shape_error(context, parts, base, "B * A of one expert has another shape");
  left.first = rows.expert * left.matrix_step + rows.row * left.row_step;
  left.rows = program->rows;
  left.row_step *= rows.step;
  right.first = rows.expert * right.matrix_step;
  left.matrix_step = right.matrix_step = 0;
  TFTF_TRY(check_plain(context, parts));
  TFTF_TRY(set_scale(context, parts, path, pair.rank, "lora", *program));
  return program;
}

}  // namespace tftf::merging
