#include "adapter/merge_forms.h"

#include <algorithm>

#include "adapter/merge_parts.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

constexpr int64_t kAdaLoraRank = 12;  // PEFT's init_r, when a configuration names none

// `pieces` of a tensor that all ranks held alike: one of them where the whole does not fit (spec tftf 2.8).
const TensorData* one_rank(const FormContext& context, const TensorData* tensor) {
  const Adapter& adapter = *context.adapter;
  for (size_t i = 0; i < adapter.replicated.size(); ++i)
    if (&adapter.tensors[i].data == tensor) return adapter.replicated[i].get();
  return nullptr;
}

struct LinearShapes {
  const TensorData* a = nullptr;
  const TensorData* b = nullptr;
  bool straight = false;  // the weight is (out, in)
  bool turned = false;    // (in, out)
  bool fits() const { return straight || turned; }
};

LinearShapes linear_shapes(const TensorData* a, const TensorData* b, const Shape& w) {
  LinearShapes shapes{a, b};
  if (a->shape.size() != 2 || b->shape.size() != 2 || a->shape[0] != b->shape[1] || w.size() != 2)
    return shapes;
  const uint64_t in = a->shape[1], out = b->shape[0];
  shapes.straight = w[0] == out && w[1] == in;
  shapes.turned = w[0] == in && w[1] == out;
  return shapes;
}

Result<LinearShapes> choose_linear(const FormContext& context, const ModuleParts& parts, const Shape& w,
                                   std::string_view path) {
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB);
  const LinearShapes whole = linear_shapes(a, b, w);
  const TensorData *one_a = one_rank(context, a), *one_b = one_rank(context, b);
  if (one_a == nullptr && one_b == nullptr) return whole;
  const auto rank = context.targeting->rank(path);
  if (!rank) return rank.error();
  const auto right = [&](const LinearShapes& shapes) {
    return shapes.fits() && (!context.config().present ||
                             shapes.a->shape[0] == static_cast<uint64_t>(rank->value_or(kDefaultRank)));
  };
  if (right(whole)) return whole;
  for (const LinearShapes& other :
       {linear_shapes(one_a ? one_a : a, one_b ? one_b : b, w), linear_shapes(one_a ? one_a : a, b, w),
        linear_shapes(a, one_b ? one_b : b, w)}) {
    if (!right(other)) continue;
    context.notices->push_back(
        "Tensors of module " + quote_name(parts.module) +
        " are the same on all ranks and fit the base as they are; one of them is taken.");
    return other;
  }
  return whole;
}

Program conv_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                     std::string_view path) {
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB);
  const Shape& w = *base.shape;
  const bool pair = a->shape.size() == w.size() && b->shape.size() == w.size() && ones_after(b->shape, 2) &&
                    a->shape[0] == b->shape[1] && b->shape[0] == w[0];
  if (pair && same_from(a->shape, w, 2) && w[1] != 0 && a->shape[1] != w[1] && a->shape[1] % w[1] == 0) {
    return form_error(
        ErrorCode::kRefusedUnsupported, context, parts.first_name(),
        "belongs to a convolution in " + std::to_string(a->shape[1] / w[1]) +
            " groups, whose weight no low-rank pair can change alike; PEFT does not merge it either",
        shape_text(w), shape_text(a->shape));
  }
  if (!pair || !same_from(a->shape, w, 1))
    return shape_error(context, parts, base, "a convolution needs A (r, in, k...) and B (out, r, 1...)");
  auto program = new_program(context, w);
  const uint64_t rank = a->shape[0];
  program->delta = MergeProgram::Delta::kProduct;
  program->left = plain(b, program->rows, rank);
  program->right = plain(a, rank, program->cols);
  TFTF_TRY(set_scale(context, parts, path, rank, "lora", *program));
  TFTF_TRY(add_magnitude(context, parts, base, true, *program));
  return program;
}

}  // namespace

Program low_rank_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path) {
  const Shape& w = *base.shape;
  if (w.size() < 2) return shape_error(context, parts, base, "a pair needs a matrix");
  if (w.size() > 2) return conv_program(context, parts, base, path);
  const Result<LinearShapes> shapes = choose_linear(context, parts, w, path);
  if (!shapes) return shapes.error();
  if (!shapes->fits()) return shape_error(context, parts, base, "B * A has another shape");
  const auto lies = is_turned(context, parts, base, {shapes->straight, shapes->turned});
  if (!lies) return lies.error();
  const bool turned = *lies;
  auto program = new_program(context, w);
  const uint64_t rank = shapes->a->shape[0], in = shapes->a->shape[1], out = shapes->b->shape[0];
  program->delta = MergeProgram::Delta::kProduct;
  program->left = turned ? flipped(shapes->a, in, rank) : plain(shapes->b, out, rank);
  program->right = turned ? flipped(shapes->b, rank, out) : plain(shapes->a, rank, in);
  if (turned) program->word = "";
  TFTF_TRY(set_scale(context, parts, path, rank, "lora", *program));
  TFTF_TRY(add_magnitude(context, parts, base, !turned, *program));
  return program;
}

Program svd_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                    std::string_view path) {
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB),
                   *e = parts.find(PeftPart::kLoraE);
  if (a == nullptr || b == nullptr || e == nullptr)
    return form_error(ErrorCode::kRefusedMissing, context, parts.first_name(),
                      "lacks a twin among lora_A, lora_B and lora_E of its module");
  const Shape& w = *base.shape;
  if (w.size() != 2 && w.size() != 4)
    return shape_error(context, parts, base, "AdaLora needs a matrix or a 2-d convolution");
  if (a->shape.size() != 2 || b->shape.size() != 2 || a->shape[0] != b->shape[1] ||
      e->shape != Shape{a->shape[0], 1})
    return shape_error(context, parts, base, "A, B and E have no rank in common");
  auto program = new_program(context, w);
  const uint64_t rank = a->shape[0], out = b->shape[0], in = a->shape[1];
  const Shape matrix{program->rows, program->cols};
  const Fits fits = linear_fits(context, parts, matrix);
  if (!fits.straight && (w.size() == 4 || !fits.turned))
    return shape_error(context, parts, base, "B * A has another shape");
  bool turned = false;
  if (w.size() == 2) {
    const auto lies = is_turned(context, parts, base, fits);
    if (!lies) return lies.error();
    turned = *lies;
  }
  const PeftConfig& config = context.config();
  const auto left =
      std::find_if(config.adalora_ranks.begin(), config.adalora_ranks.end(),
                   [&](const auto& entry) { return entry.first == std::string(path) + ".lora_E"; });
  const int64_t expected =
      left == config.adalora_ranks.end() ? config.rank.value_or(kAdaLoraRank) : left->second;
  if (static_cast<uint64_t>(expected) != rank) {
    return form_error(ErrorCode::kRefusedShape, context, parts.first_name(),
                      "has rank " + std::to_string(rank) + ", and " + quote_name(config.file) + " says " +
                          std::to_string(expected),
                      std::to_string(expected), std::to_string(rank));
  }
  Factor up = plain(b, out, rank), down = plain(a, rank, in);
  down.row_scale = e;
  program->delta = MergeProgram::Delta::kProduct;
  program->left = turned ? transposed(down) : up;
  program->right = turned ? transposed(up) : down;
  // PEFT divides by the rank that training began with, whatever is left of it (ranknum is not saved).
  const double alpha = config.alpha > 0 ? config.alpha : static_cast<double>(rank);
  program->scale =
      context.options->scale * alpha / (static_cast<double>(config.rank.value_or(kAdaLoraRank)) + 1e-5);
  program->word = "adalora r=" + std::to_string(rank) + " s=" + short_number(program->scale);
  return program;
}

Program embedding_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path) {
  const TensorData *a = parts.find(PeftPart::kEmbeddingA), *b = parts.find(PeftPart::kEmbeddingB);
  const Shape& w = *base.shape;
  if (w.size() != 2 || a->shape.size() != 2 || b->shape.size() != 2)
    return shape_error(context, parts, base, "an embedding needs three matrices");
  auto program = new_program(context, w);
  program->delta = MergeProgram::Delta::kProduct;
  uint64_t rank = a->shape[0];
  if (b->shape[1] == rank && a->shape[1] == w[0] && b->shape[0] == w[1]) {
    program->left = flipped(a, w[0], rank);
    program->right = flipped(b, rank, w[1]);
  } else if (a->shape[1] == b->shape[0] && a->shape[0] == w[0] && b->shape[1] == w[1]) {
    rank = a->shape[1];  // stored the other way round, as only old tools do
    program->left = plain(a, w[0], rank);
    program->right = plain(b, rank, w[1]);
  } else {
    return shape_error(context, parts, base, "the transpose of B * A has another shape");
  }
  TFTF_TRY(set_scale(context, parts, path, rank, "lora", *program));
  TFTF_TRY(add_magnitude(context, parts, base, false, *program));
  return program;
}

Program bias_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                     std::string_view path, uint64_t rank) {
  const TensorData* bias = parts.find(PeftPart::kLoraBBias);
  if (base.shape->size() != 1 || bias->shape != *base.shape)
    return shape_error(context, parts, base, "a bias needs the bias's own shape");
  auto program = new_program(context, *base.shape);
  // As a product of rank 1 with the left factor 1: no rounding but that of s * b and of the sum.
  program->delta = MergeProgram::Delta::kKronecker;
  program->left2 = plain(bias, 1, program->cols);
  auto scale = scale_of(context, path, rank);
  if (!scale) return std::move(scale).error();
  program->scale = *scale;
  program->word = "lora bias s=" + short_number(*scale);
  return program;
}

}  // namespace tftf::merging
