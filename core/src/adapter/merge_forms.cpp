#include "adapter/merge_forms.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf::merge {
namespace {

constexpr int64_t kDefaultRank = 8;  // PEFT's, when a configuration names none

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
    const uint64_t kernel = product(w, 2);
    const auto core = [&](const TensorData* t) {
      return t->shape.size() >= 3 && t->shape[0] == rank && t->shape[1] == rank &&
             product(t->shape, 2) == kernel &&
             (same_from(Shape(t->shape.begin() + 2, t->shape.end()), Shape(w.begin() + 2, w.end()), 0) ||
              (w.size() == 3 && t->shape.size() == 4 && t->shape[3] == 1));
    };
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

Program kronecker_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path) {
  using P = PeftPart;
  const Shape& w = *base.shape;
  const TensorData *w1 = parts.find(P::kLokrW1), *w1a = parts.find(P::kLokrW1A),
                   *w1b = parts.find(P::kLokrW1B), *w2 = parts.find(P::kLokrW2),
                   *w2a = parts.find(P::kLokrW2A), *w2b = parts.find(P::kLokrW2B),
                   *t2 = parts.find(P::kLokrT2);
  const auto both_or_none = [](const TensorData* a, const TensorData* b) {
    return (a == nullptr) == (b == nullptr);
  };
  if (!both_or_none(w1a, w1b) || !both_or_none(w2a, w2b) || (w1 == nullptr) == (w1a == nullptr) ||
      (w2 == nullptr) == (w2a == nullptr) || (t2 != nullptr && w2a == nullptr))
    return form_error(ErrorCode::kRefusedMissing, context, parts.first_name(),
                      "lacks a twin among the lokr_ tensors of its module, or has one too many");
  const auto fail = [&] { return shape_error(context, parts, base, "kron(w1, w2) has another shape"); };
  if (w.size() < 2) return fail();
  auto program = new_program(context, w);
  program->delta = MergeProgram::Delta::kKronecker;
  const auto matrix = [](const TensorData* t) { return t->shape.size() == 2; };
  uint64_t rank = 0, a = 0, b = 0, c = 0, d = 0;  // w1 (a, b), w2 (c, d, kernel)
  if (w1 != nullptr) {
    if (!matrix(w1)) return fail();
    a = w1->shape[0];
    b = w1->shape[1];
    program->left = plain(w1, a, b);
  } else {
    if (!matrix(w1a) || !matrix(w1b) || w1a->shape[1] != w1b->shape[0]) return fail();
    rank = w1b->shape[0];
    a = w1a->shape[0];
    b = w1b->shape[1];
    program->left = plain(w1a, a, rank);
    program->right = plain(w1b, rank, b);
  }
  const uint64_t kernel = product(w, 2);
  if (w2 != nullptr) {
    if (w2->shape.size() != w.size() || !same_from(w2->shape, w, 2)) return fail();
    c = w2->shape[0];
    d = w2->shape[1];
    program->left2 = plain(w2, c, d * kernel);
  } else if (t2 != nullptr) {
    if (!matrix(w2a) || !matrix(w2b) || t2->shape.size() != w.size() || !same_from(t2->shape, w, 2) ||
        t2->shape[0] != w2a->shape[0] || t2->shape[1] != w2b->shape[0])
      return fail();
    rank = w2b->shape[0];
    c = w2a->shape[1];
    d = w2b->shape[1];
    program->left2 = flipped(w2a, c, w2a->shape[0]);
    program->right2 = plain(w2b, t2->shape[1], d);
    program->right2.core = t2;
    program->right2.rows = t2->shape[0];
    program->right2.cols = d * kernel;
  } else {
    if (!matrix(w2a) || !matrix(w2b) || w2a->shape[1] != w2b->shape[0] || kernel == 0 ||
        w2b->shape[1] % kernel != 0)
      return fail();
    rank = w2b->shape[0];
    c = w2a->shape[0];
    d = w2b->shape[1] / kernel;
    program->left2 = plain(w2a, c, rank);
    program->right2 = plain(w2b, rank, d * kernel);
  }
  if (a == 0 || b == 0 || c == 0 || d == 0 || w[0] / a != c || w[0] % a != 0 || w[1] / b != d ||
      w[1] % b != 0)
    return fail();
  if (rank == 0) {  // both factors are whole: the configured rank divides alpha all the same
    auto configured = context.targeting->rank(path);
    if (!configured) return std::move(configured).error();
    rank = static_cast<uint64_t>(configured->value_or(kDefaultRank));
  }
  TFTF_TRY(set_scale(context, parts, path, rank, "lokr", *program));
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
  const bool fifo = context.config().fan_in_fan_out;
  if (w.size() != 2 || a->shape.size() != 2 || b->shape.size() != 2 || d->shape.size() != 1 ||
      l->shape.size() != 1)
    return shape_error(context, parts, base, "VeRA needs a matrix");
  const uint64_t rank = a->shape[0], out = fifo ? w[1] : w[0], in = fifo ? w[0] : w[1];
  if (b->shape[1] != rank || d->shape[0] != rank || l->shape[0] != out || a->shape[1] < in ||
      b->shape[0] < out)
    return shape_error(context, parts, base,
                       "the slices of vera_A and vera_B do not reach, or the lambdas have another length");
  auto program = new_program(context, w);
  program->delta = MergeProgram::Delta::kProduct;
  program->left = {.tensor = b, .rows = out, .cols = rank, .row_step = rank, .col_step = 1, .row_scale = l};
  program->right = {
      .tensor = a, .rows = rank, .cols = in, .row_step = a->shape[1], .col_step = 1, .row_scale = d};
  if (fifo) {
    return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                      "is of VeRA for a weight stored as (in, out), which is not supported");
  }
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
  const bool fifo = context.config().fan_in_fan_out && w.size() == 2;
  const uint64_t out = fifo ? w[1] : w[0], in = fifo ? w[0] : w[1];
  auto configured = context.targeting->feedforward(path);
  if (!configured) return std::move(configured).error();
  bool feedforward = *configured;
  if (w.size() == 2) {
    // (out, 1) scales outputs, (1, in) inputs: the vector's own shape tells which, unless it has one element.
    if (l->shape.size() != 2 || (l->shape[0] != 1 && l->shape[1] != 1))
      return shape_error(context, parts, base, "the vector needs the shape (out, 1) or (1, in)");
    if (count > 1) feedforward = l->shape[0] == 1;
  } else {
    if (l->shape.size() != w.size() || l->shape[0] != 1 || l->shape[1] != count)
      return shape_error(context, parts, base, "the vector needs the shape (1, n, 1...)");
    if (out != in && (count == out || count == in)) feedforward = count == in;
  }
  if (count != (feedforward ? in : out))
    return shape_error(context, parts, base,
                       "the vector needs one value per " + std::string(feedforward ? "input" : "output"));
  if (feedforward && product(w, 2) != 1) {
    return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                      "scales the inputs of a convolution, which is not supported");
  }
  auto program = new_program(context, w);
  program->multiplier = l;
  program->multiplies_rows = feedforward == fifo;
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

Program rotation_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path) {
  const PeftConfig& config = context.config();
  const bool embedding = parts.has(PeftPart::kOftEmbeddingR);
  const TensorData* r = parts.find(embedding ? PeftPart::kOftEmbeddingR : PeftPart::kOftR);
  const Shape& w = *base.shape;
  if (config.fan_in_fan_out) {
    return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                      "is of OFT with fan_in_fan_out, which is not supported");
  }
  if (w.size() == 3 || w.size() > 4 || (w.size() == 4 && w[2] != w[3])) {
    return form_error(
        ErrorCode::kRefusedUnsupported, context, parts.first_name(),
        "is of OFT for " + shape_text(w) + "; matrices and convolutions with square kernels are supported");
  }
  if (w.size() < 2 || r->shape.size() != 2) return shape_error(context, parts, base, "OFT needs matrices");
  auto program = new_program(context, w);
  uint64_t block = 0;
  while (block * (block + 1) / 2 < r->shape[1]) ++block;
  ++block;  // b (b - 1) / 2 values
  if (block * (block - 1) / 2 != r->shape[1] || program->cols % block != 0)
    return shape_error(context, parts, base,
                       "the rows of oft_R are no triangles of blocks that divide the inputs");
  const uint64_t blocks = program->cols / block;
  const bool shared = r->shape[0] == 1 && blocks > 1;
  if (r->shape[0] != blocks && !(shared && config.block_share))
    return shape_error(context, parts, base, "the inputs need " + std::to_string(blocks) + " blocks");
  if (config.oft_block_size != 0 && static_cast<uint64_t>(config.oft_block_size) != block)
    return shape_error(context, parts, base, "oft_block_size is " + std::to_string(config.oft_block_size));
  if (config.use_cayley_neumann && config.cayley_neumann_terms > 1000)
    return form_error(ErrorCode::kRefusedConfig, context, parts.first_name(),
                      "has more than 1000 Cayley-Neumann terms");
  (void)path;
  program->rotation = r;
  program->block_size = block;
  program->rotation_shared = shared;
  program->rotation_transposed = !embedding;
  program->neumann_terms = config.use_cayley_neumann ? static_cast<uint32_t>(config.cayley_neumann_terms) : 0;
  if (config.coft) program->rotation_limit = config.eps / std::sqrt(static_cast<double>(r->shape[0]));
  program->word = "oft blocks=" + std::to_string(blocks) + " terms=" + std::to_string(program->neumann_terms);
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

}  // namespace tftf::merge

namespace tftf {

uint64_t MergeProgram::unit() const {
  if (magnitude != nullptr && !magnitude_of_rows) return rows * cols;
  if (magnitude != nullptr || rotation != nullptr) return cols;
  return 1;
}

}  // namespace tftf
