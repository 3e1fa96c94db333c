// LoHa, VeRA, IA3 and rows of tokens.
#include <algorithm>

#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::merging {

Program hadamard_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path) {
  using P = PeftPart;
  const Shape& w = *base.shape;
  const TensorData *a1 = parts.find(P::kHadaW1A), *b1 = parts.find(P::kHadaW1B),
                   *a2 = parts.find(P::kHadaW2A), *b2 = parts.find(P::kHadaW2B), *t1 = parts.find(P::kHadaT1),
                   *t2 = parts.find(P::kHadaT2);
  if (a1 == nullptr || b1 == nullptr || a2 == nullptr || b2 == nullptr || (t1 == nullptr) != (t2 == nullptr))
    return form_error(ErrorCode::kRefusedMissing, context, parts.first_name(),
                      "lacks a twin among the hada_ tensors of its module");
  if (w.size() < 2) return shape_error(context, parts, base, "LoHa needs a matrix");
  auto program = new_program(context, w);
  program->delta = MergeProgram::Delta::kHadamard;
  const auto is = [](const TensorData* t, uint64_t rows, uint64_t cols) {
    return t->shape.size() == 2 && t->shape[0] == rows && t->shape[1] == cols;
  };
  const uint64_t rank = b1->shape.empty() ? 0 : b1->shape[0];
  if (t1 == nullptr) {
    if (!is(a1, program->rows, rank) || !is(a2, program->rows, rank) || !is(b1, rank, program->cols) ||
        !is(b2, rank, program->cols))
      return shape_error(context, parts, base, "the products w1_a * w1_b and w2_a * w2_b have another shape");
    program->left = plain(a1, program->rows, rank);
    program->right = plain(b1, rank, program->cols);
    program->left2 = plain(a2, program->rows, rank);
    program->right2 = plain(b2, rank, program->cols);
  } else {
    const auto core = [&](const TensorData* t) {
      return is_tucker_core(t->shape, w) && t->shape[0] == rank && t->shape[1] == rank;
    };
    if (w.size() > 4) {
      return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                        "is of LoHa in Tucker form for a convolution of " + std::to_string(w.size() - 2) +
                            " dimensions, for which PEFT has no formula");
    }
    if (w.size() < 3 || !core(t1) || !core(t2) || !is(a1, rank, program->rows) ||
        !is(a2, rank, program->rows) || !is(b1, rank, w[1]) || !is(b2, rank, w[1]))
      return shape_error(context, parts, base, "the Tucker form has another shape");
    program->left = flipped(a1, program->rows, rank);
    program->left2 = flipped(a2, program->rows, rank);
    program->right = plain(b1, rank, w[1]);
    program->right.core = t1;
    program->right.cols = program->cols;
    program->right2 = plain(b2, rank, w[1]);
    program->right2.core = t2;
    program->right2.cols = program->cols;
  }
  TFTF_TRY(set_scale(context, parts, path, rank, "loha", *program));
  return program;
}

Program vera_program(const FormContext& context, const ModuleParts& parts, const ModuleParts& shared,
                     const TensorView& base, std::string_view path) {
  using P = PeftPart;
  const TensorData *a = shared.find(P::kVeraA), *b = shared.find(P::kVeraB), *d = parts.find(P::kVeraLambdaD),
                   *l = parts.find(P::kVeraLambdaB);
  if (d == nullptr || l == nullptr)
    return form_error(ErrorCode::kRefusedMissing, context, parts.first_name(),
                      "lacks its twin among vera_lambda_b and vera_lambda_d");
  if (a == nullptr || b == nullptr)
    return form_error(
        ErrorCode::kRefusedUnsupported, context, parts.first_name(),
        "needs the shared projections vera_A and vera_B, which were not saved (save_projection); they come "
        "from a random generator and cannot be made again");
  const Shape& w = *base.shape;
  if (w.size() != 2 || a->shape.size() != 2 || b->shape.size() != 2 || d->shape.size() != 1 ||
      l->shape.size() != 1)
    return shape_error(context, parts, base, "VeRA needs a matrix");
  const Fits fits = linear_fits(context, parts, w);
  if (!fits.any()) return shape_error(context, parts, base, "vera_lambda_b has another length");
  const auto turned = is_turned(context, parts, base, fits);
  if (!turned) return turned.error();
  const uint64_t rank = a->shape[0], out = *turned ? w[1] : w[0], in = *turned ? w[0] : w[1];
  if (b->shape[1] != rank || d->shape[0] != rank || l->shape[0] != out || a->shape[1] < in ||
      b->shape[0] < out)
    return shape_error(context, parts, base,
                       "the slices of vera_A and vera_B do not reach, or the lambdas have another length");
  auto program = new_program(context, w);
  program->delta = MergeProgram::Delta::kProduct;
  Factor up{.tensor = b, .rows = out, .cols = rank, .row_step = rank, .col_step = 1, .row_scale = l};
  Factor down{.tensor = a, .rows = rank, .cols = in, .row_step = a->shape[1], .col_step = 1, .row_scale = d};
  program->left = *turned ? transposed(down) : up;
  program->right = *turned ? transposed(up) : down;
  TFTF_TRY(check_rank(context, parts, path, rank));
  program->scale = context.options->scale;
  program->word = "vera r=" + std::to_string(rank) + " s=" + short_number(program->scale);
  return program;
}

Program ia3_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                    std::string_view path, bool& scales_bias) {
  const TensorData* l = parts.find(PeftPart::kIa3);
  const Shape& w = *base.shape;
  if (w.size() < 2) return shape_error(context, parts, base, "IA3 needs a matrix");
  const uint64_t count = product(l->shape, 0);
  auto configured = context.targeting->feedforward(path);
  if (!configured) return std::move(configured).error();
  bool feedforward = *configured, turned = false;
  if (w.size() == 2) {
    // (out, 1) scales outputs, (1, in) inputs: the vector's own shape tells which, unless it has one element.
    if (l->shape.size() != 2 || (l->shape[0] != 1 && l->shape[1] != 1))
      return shape_error(context, parts, base, "the vector needs the shape (out, 1) or (1, in)");
    if (count > 1) feedforward = l->shape[0] == 1;
    if (const Fits fits = linear_fits(context, parts, w); fits.any()) {
      const auto lies = is_turned(context, parts, base, fits);
      if (!lies) return lies.error();
      turned = *lies;
    }
  } else {
    // PEFT scales what its own configuration says: a vector that fits both ends tells nothing.
    if (l->shape.size() != w.size() || l->shape[0] != 1 || l->shape[1] != count)
      return shape_error(context, parts, base, "the vector needs the shape (1, n, 1...)");
  }
  const uint64_t out = turned ? w[1] : w[0], in = turned ? w[0] : w[1];
  if (count != (feedforward ? in : out)) {
    const bool grouped = w.size() > 2 && feedforward && in != 0 && count > in && count % in == 0;
    return shape_error(
        context, parts, base,
        grouped ? "a convolution in groups has no weight per input that could be scaled, and PEFT "
                  "does not merge it either"
                : "the vector needs one value per " + std::string(feedforward ? "input" : "output"));
  }
  auto program = new_program(context, w);
  program->multiplier = l;
  program->multiplies_rows = feedforward == turned;
  if (!program->multiplies_rows) program->multiplier_run = product(w, 2);
  program->word = feedforward ? "ia3 inputs" : "ia3 outputs";
  scales_bias = !feedforward;
  return program;
}

Program ia3_bias_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
  const TensorData* l = parts.find(PeftPart::kIa3);
  if (base.shape->size() != 1 || product(l->shape, 0) != (*base.shape)[0])
    return shape_error(context, parts, base, "the vector has another length");
  auto program = new_program(context, *base.shape);
  program->multiplier = l;
  program->word = "ia3 outputs";
  return program;
}

Program token_program(const FormContext& context, const NamedTensor& stored,
                      const std::vector<uint64_t>& rows, const TensorView& base) {
  const Shape& w = *base.shape;
  const Shape& s = stored.data.shape;
  if (w.size() != 2 || s.size() != 2 || s[1] != w[1] || s[0] != rows.size()) {
    return form_error(
        ErrorCode::kRefusedShape, context, stored.name,
        "of shape " + shape_text(s) + " does not fit " + quote_name(base.name) + " of shape " +
            shape_text(w) + " with " + std::to_string(rows.size()) + " trainable_token_indices",
        "[" + std::to_string(rows.size()) + "," + (w.size() == 2 ? std::to_string(w[1]) : "?") + "]",
        shape_text(s));
  }
  auto program = new_program(context, w);
  program->set_rows = &stored.data;
  for (uint64_t i = 0; i < rows.size(); ++i) program->set_row_numbers.emplace_back(rows[to_size(i)], i);
  std::sort(program->set_row_numbers.begin(), program->set_row_numbers.end());
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t row = program->set_row_numbers[i].first;
    if (row >= w[0] || (i > 0 && program->set_row_numbers[i - 1].first == row)) {
      return form_error(ErrorCode::kRefusedConfig, context, stored.name,
                        "is for row " + std::to_string(row) +
                            (row >= w[0] ? ", which " + quote_name(base.name) + " does not have" : " twice"),
                        shape_text(w), std::to_string(row));
    }
  }
  program->word = "tokens n=" + std::to_string(rows.size());
  return program;
}

}  // namespace tftf::merging
