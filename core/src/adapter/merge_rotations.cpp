// Methods that turn the rows of a weight: OFT, BOFT, HRA and MiSS in its "bat" form.
#include <algorithm>
#include <cmath>

#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

constexpr uint64_t kMostReflections = 1 << 16;

// PEFT has these methods for Linear, convolutions and (OFT) embeddings: no adapter of it is of a Conv1D.
Result<void> refuse_conv1d(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                           std::string_view method) {
  if (base.shape->size() != 2 || !context.config().fan_in_fan_out) return {};
  if (!context.axes->turned(parts.module).value_or(false)) return {};
  return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                    "is of " + std::string(method) + " for " + quote_name(base.name) +
                        ", which is stored as (in, out): PEFT has no " + std::string(method) +
                        " of such layers, so that no formula says what would be meant");
}

Result<void> check_square_kernel(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                                 std::string_view method) {
  const Shape& w = *base.shape;
  if (w.size() == 2 || (w.size() == 4 && w[2] == w[3])) return {};
  return form_error(ErrorCode::kRefusedUnsupported, context, parts.first_name(),
                    "is of " + std::string(method) + " for " + quote_name(base.name) + " of shape " +
                        shape_text(w) + "; PEFT has it for matrices and convolutions with square kernels");
}

// What PEFT makes of an oft_block_size that does not divide the inputs: the nearest one that does.
uint64_t adjusted_block(uint64_t inputs, uint64_t size) {
  if (size >= inputs) return inputs;
  uint64_t higher = size, lower = size;
  while (inputs % higher != 0) ++higher;
  while (lower > 1 && inputs % lower != 0) --lower;
  return size - lower <= higher - size ? lower : higher;
}

}  // namespace

Program rotation_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
  const PeftConfig& config = context.config();
  const bool embedding = parts.has(PeftPart::kOftEmbeddingR);
  const TensorData* r = parts.find(embedding ? PeftPart::kOftEmbeddingR : PeftPart::kOftR);
  const Shape& w = *base.shape;
  TFTF_TRY(refuse_conv1d(context, parts, base, "OFT"));
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
  if (config.oft_block_size != 0 &&
      adjusted_block(program->cols, static_cast<uint64_t>(config.oft_block_size)) != block)
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

Program butterfly_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
  const TensorData *r = parts.find(PeftPart::kBoftR), *s = parts.find(PeftPart::kBoftS);
  if (r == nullptr || s == nullptr)
    return form_error(ErrorCode::kRefusedMissing, context, parts.first_name(),
                      "lacks its twin among boft_R and boft_s");
  TFTF_TRY(refuse_conv1d(context, parts, base, "BOFT"));
  TFTF_TRY(check_square_kernel(context, parts, base, "BOFT"));
  auto program = new_program(context, *base.shape);
  const Shape& blocks = r->shape;
  if (blocks.size() != 4 || blocks[0] == 0 || blocks[1] == 0 || blocks[2] == 0 || blocks[2] != blocks[3] ||
      program->cols / blocks[2] != blocks[1] || program->cols % blocks[2] != 0)
    return shape_error(context, parts, base, "boft_R needs (factors, blocks, b, b) with blocks * b inputs");
  if (product(s->shape, 0) != program->rows)
    return shape_error(context, parts, base, "boft_s needs one value per output");
  // Factor i swaps halves of blocks among groups of 2^i: there must be as many.
  const uint64_t factors = blocks[0];
  if (factors > 1 && (factors > 40 || blocks[2] % 2 != 0 || blocks[1] % (uint64_t{1} << (factors - 1)) != 0))
    return shape_error(context, parts, base, "so many butterfly factors need more blocks, of an even size");
  program->turn_kind = MergeProgram::Turn::kButterfly;
  program->turn = r;
  program->multiplier = s;
  program->multiplies_rows = true;
  program->word = "boft factors=" + std::to_string(factors) + " b=" + std::to_string(blocks[2]);
  return program;
}

Program reflection_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
  const TensorData* u = parts.find(PeftPart::kHraU);
  TFTF_TRY(refuse_conv1d(context, parts, base, "HRA"));
  TFTF_TRY(check_square_kernel(context, parts, base, "HRA"));
  auto program = new_program(context, *base.shape);
  if (u->shape.size() != 2 || u->shape[0] != program->cols || u->shape[1] == 0 ||
      u->shape[1] > kMostReflections)
    return shape_error(context, parts, base, "hra_u needs (inputs, r)");
  TFTF_TRY(check_rank(context, parts, parts.module, u->shape[1]));
  const bool orthogonal = context.config().apply_gs;
  program->turn_kind =
      orthogonal ? MergeProgram::Turn::kOrthogonalReflections : MergeProgram::Turn::kReflections;
  program->turn = u;
  program->word = "hra r=" + std::to_string(u->shape[1]) + (orthogonal ? " orthogonal" : "");
  return program;
}

Program miss_program(const FormContext& context, const ModuleParts& parts, const TensorView& base) {
  const TensorData* block = parts.find(PeftPart::kMissBlock);
  const Shape &w = *base.shape, &b = block->shape;
  if (w.size() != 2) return shape_error(context, parts, base, "MiSS needs a matrix");
  TFTF_TRY(refuse_conv1d(context, parts, base, "MiSS"));
  auto program = new_program(context, w);
  using Miss = PeftConfig::Miss;
  const Miss form = context.config().miss;
  if (form == Miss::kBat) {
    if (b.size() != 3 || b[1] == 0 || b[1] != b[2] || w[0] % b[1] != 0 || w[1] % b[1] != 0 ||
        b[0] != w[0] / b[1])
      return shape_error(context, parts, base,
                         "miss_block needs (outputs / r, r, r), with r dividing both sides");
    TFTF_TRY(check_rank(context, parts, parts.module, b[1]));
    program->turn_kind = MergeProgram::Turn::kBlocks;
    program->turn = block;
    program->word = "miss bat r=" + std::to_string(b[1]);
    return program;
  }
  const bool mini = form == Miss::kMini;
  if (b.size() != 2 || b[0] == 0 || b[1] == 0 || (mini ? w[0] % b[1] != 0 : b[1] != w[0]))
    return shape_error(context, parts, base,
                       mini ? "miss_block needs (r, mini_r), with mini_r dividing the outputs"
                            : "miss_block needs (r, outputs)");
  TFTF_TRY(check_rank(context, parts, parts.module, b[0]));
  program->delta = MergeProgram::Delta::kTiled;
  program->left = flipped(block, b[1], b[0]);
  program->word = std::string(mini ? "miss mini" : "miss") + " r=" + std::to_string(b[0]);
  return program;
}

}  // namespace tftf::merging
