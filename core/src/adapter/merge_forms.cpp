#include "adapter/merge_forms.h"

#include "adapter/merge_parts.h"
#include "tftf/base/escape.h"

namespace tftf::merge {
namespace {

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
  const bool flag = context.config().fan_in_fan_out;
  const bool turned = shapes->straight && shapes->turned ? flag : shapes->turned;
  if (turned != flag) {
    context.notices->push_back("Weight " + quote_name(base.name) + " is stored as " +
                               (turned ? "(in, out)" : "(out, in)") +
                               ", whatever fan_in_fan_out says; its shape decides.");
  }
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

namespace {

// Which of the orientations of a stack the pair has: E, in, out, and r from A (E*r, in) and B (out, r*E).
struct StackShapes {
  uint64_t matrices = 0, rank = 0, in = 0, out = 0;
  bool straight = false;  // (E, out, in)
  bool turned = false;    // (E, in, out)
};

StackShapes stack_shapes(const ModuleParts& parts, const Shape& w) {
  StackShapes s;
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB);
  if (a == nullptr || b == nullptr || a->shape.size() != 2 || b->shape.size() != 2 ||
      a->shape[0] != b->shape[1] || (w.size() != 2 && w.size() != 3))
    return s;
  const size_t skip = w.size() - 2;
  s.matrices = skip == 1 ? w[0] : 1;
  if (s.matrices == 0 || a->shape[0] == 0 || a->shape[0] % s.matrices != 0) return s;
  s.rank = a->shape[0] / s.matrices;
  s.in = a->shape[1];
  s.out = b->shape[0];
  s.straight = w[skip] == s.out && w[skip + 1] == s.in;
  // A parameter of two dimensions is a linear weight, never transposed.
  s.turned = skip == 1 && w[skip] == s.in && w[skip + 1] == s.out;
  return s;
}

}  // namespace

bool fits_parameter(const ModuleParts& parts, const Shape& shape) {
  const StackShapes s = stack_shapes(parts, shape);
  return s.straight || s.turned;
}

Program parameter_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path) {
  const StackShapes s = stack_shapes(parts, *base.shape);
  if (!s.straight && !s.turned) return shape_error(context, parts, base, "B * A has another shape");
  if (parts.has(PeftPart::kMagnitude) || parts.has(PeftPart::kLoraBBias)) {
    return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                      "is of a parameter, for which PEFT knows neither magnitude nor bias");
  }
  auto program = new_program(context, *base.shape);
  const Shape& w = *base.shape;
  program->matrices = s.matrices;
  program->rows = w[w.size() - 2];
  program->cols = w[w.size() - 1];
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB);
  // The expert is outermost in A and innermost in B.
  const Factor factor_a{.tensor = a,
                        .rows = s.rank,
                        .cols = s.in,
                        .row_step = s.in,
                        .col_step = 1,
                        .matrix_step = s.rank * s.in};
  const Factor factor_b{.tensor = b,
                        .rows = s.out,
                        .cols = s.rank,
                        .row_step = s.rank * s.matrices,
                        .col_step = s.matrices,
                        .matrix_step = 1};
  const auto turned = [](Factor f) {
    std::swap(f.rows, f.cols);
    std::swap(f.row_step, f.col_step);
    return f;
  };
  program->delta = MergeProgram::Delta::kProduct;
  program->left = s.straight ? factor_b : turned(factor_a);
  program->right = s.straight ? factor_a : turned(factor_b);
  TFTF_TRY(set_scale(context, parts, path, s.rank, "lora", *program));
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

}  // namespace tftf::merge
