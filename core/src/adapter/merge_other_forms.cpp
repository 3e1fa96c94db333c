#include <algorithm>
#include <cmath>

#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::merge {

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

Program rotation_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
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
