#include <algorithm>

#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"

namespace tftf::merging {

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
    if (w.size() == 2 || w.size() == 4) {
      program->left2 = plain(w2, c, d * kernel);
    } else {
      // PEFT gives w1 axes of length 1 behind its own for kernels of two dimensions only. For others torch.kron puts
      // them in front: the product is one of w1 with each matrix of the last two axes.
      const uint64_t last = w2->shape.back();
      program->kronecker_stack = last == 0 ? 0 : product(w2->shape, 0) / w2->shape[w.size() - 2] / last;
      program->left2 = plain(w2, product(w2->shape, 0) / std::max<uint64_t>(last, 1), last);
    }
  } else if (t2 != nullptr) {
    if (w.size() > 4) {
      return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                        "is of LoKr in Tucker form for a convolution of " + std::to_string(w.size() - 2) +
                            " dimensions, for which PEFT has no formula");
    }
    if (!matrix(w2a) || !matrix(w2b) || !is_tucker_core(t2->shape, w) || t2->shape[0] != w2a->shape[0] ||
        t2->shape[1] != w2b->shape[0])
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
  if (a == 0 || b == 0 || c == 0 || d == 0 || kernel == 0 || w[0] / a != c || w[0] % a != 0 ||
      w[1] / b != d || w[1] % b != 0)
    return fail();
  if (rank == 0) {  // both factors are whole: the configured rank divides alpha all the same
    auto configured = context.targeting->rank(path);
    if (!configured) return std::move(configured).error();
    rank = static_cast<uint64_t>(configured->value_or(kDefaultRank));
  }
  TFTF_TRY(set_scale(context, parts, path, rank, "lokr", *program));
  return program;
}

}  // namespace tftf::merging
