// Pairs of single experts for a base that keeps its experts in stacked parameters (spec experts 6.2).
#include <algorithm>
#include <cstring>

#include "adapter/merge_names.h"
#include "adapter/merge_parts.h"
#include "adapter/merge_resolver.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

enum class ExpertPart : uint8_t { kGate, kUp, kDown };

struct ExpertModule {
  std::string container;
  uint64_t expert = 0;
  ExpertPart part{};
};

std::optional<ExpertPart> expert_part(std::string_view word) {
  if (word == "gate_proj" || word == "w1") return ExpertPart::kGate;
  if (word == "up_proj" || word == "w3") return ExpertPart::kUp;
  if (word == "down_proj" || word == "w2") return ExpertPart::kDown;
  return std::nullopt;
}

// "a.experts.12.w1": nothing for other names and numbers of more than nine digits.
std::optional<ExpertModule> expert_module(std::string_view module) {
  const size_t dot = module.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const auto part = expert_part(module.substr(dot + 1));
  const size_t before = module.rfind('.', dot - 1);
  if (!part || before == std::string_view::npos) return std::nullopt;
  const std::string_view digits = module.substr(before + 1, dot - before - 1);
  if (digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos ||
      (digits.size() > 1 && digits[0] == '0'))
    return std::nullopt;
  ExpertModule found{std::string(module.substr(0, before)), 0, *part};
  for (const char c : digits) found.expert = found.expert * 10 + static_cast<uint64_t>(c - '0');
  return found;
}

// A tensor of zeros that elements of others of the same dtype are copied into.
class Weave {
 public:
  Weave(DType dtype, Shape shape) : size_(dtype_bits(dtype) / 8), data_(std::make_shared<TensorData>()) {
    data_->dtype = dtype;
    data_->bytes.resize(to_size(element_count(shape).value_or(0) * size_));
    data_->shape = std::move(shape);
  }
  void put(uint64_t row, uint64_t column, const TensorData& from, uint64_t from_row, uint64_t from_column) {
    std::memcpy(data_->bytes.data() + (row * data_->shape[1] + column) * size_,
                from.bytes.data() + (from_row * from.shape[1] + from_column) * size_, to_size(size_));
  }
  std::shared_ptr<const TensorData> take() { return std::move(data_); }

 private:
  uint64_t size_;
  std::shared_ptr<TensorData> data_;
};

}  // namespace

// The pairs of one matrix kind of all experts, by number.
struct Resolver::SinglePairs {
  std::vector<const ModuleParts*> parts;
  bool any() const { return !parts.empty(); }
};

Result<void> Resolver::place_single_experts() {
  if (config_.method != PeftMethod::kLora) return {};
  std::map<std::string, std::map<ExpertPart, std::map<uint64_t, const ModuleParts*>>> containers;
  for (const ModuleParts& parts : modules_) {
    const auto expert = expert_module(parts.module);
    if (!expert || by_name_.count(joined(parts.module, "weight")) > 0) continue;
    const bool fused = by_name_.count(joined(expert->container, "down_proj")) > 0 &&
                       (by_name_.count(joined(expert->container, "gate_up_proj")) > 0 ||
                        by_name_.count(joined(expert->container, "up_proj")) > 0);
    if (!fused) continue;
    auto target = is_target(parts);
    if (!target) return std::move(target).error();
    if (!*target) continue;
    if (!options_.fit) {
      return form_error(ErrorCode::kRefusedUnmatched, context_, parts.first_name(),
                        "is of a single expert, and the base has its experts fused in " +
                            quote_name(joined(expert->container, "down_proj")) +
                            " and its like; --fit fuses the pairs");
    }
    TFTF_TRY(check_pair(parts));
    containers[expert->container][expert->part][expert->expert] = &parts;
    placed_.insert(&parts);
  }
  for (const auto& [container, kinds] : containers) {
    SinglePairs pairs[3];
    for (const auto& [part, by_number] : kinds) {
      for (const auto& [number, parts] : by_number) {
        SinglePairs& kind = pairs[static_cast<size_t>(part)];
        if (number != kind.parts.size())
          return form_error(ErrorCode::kRefusedMissing, context_, parts->first_name(),
                            "is of expert " + std::to_string(number) + ", and the one before it has no pair");
        kind.parts.push_back(parts);
      }
    }
    const SinglePairs &gate = pairs[0], &up = pairs[1], &down = pairs[2];
    if (down.any()) TFTF_TRY(place_fused(container, "down_proj", down, {}));
    if (!gate.any() && !up.any()) continue;
    const bool gated = by_name_.count(joined(container, "gate_up_proj")) > 0;
    if (gated != gate.any() || (gated && !up.any()))
      return form_error(ErrorCode::kRefusedMissing, context_, (up.any() ? up : gate).parts[0]->first_name(),
                        "lacks its twin: gate and up projection of an expert are fused");
    TFTF_TRY(gated ? place_fused(container, "gate_up_proj", gate, up)
                   : place_fused(container, "up_proj", up, {}));
  }
  return {};
}

Result<void> Resolver::place_fused(const std::string& container, const std::string& parameter,
                                   const SinglePairs& first, const SinglePairs& second) {
  const ModuleParts& any = *first.parts[0];
  const uint32_t index = by_name_.at(joined(container, parameter));
  const Shape& w = *view(index).shape;
  const uint64_t experts = first.parts.size();
  const auto fail = [&](const std::string& why) { return shape_error(context_, any, view(index), why); };
  if (w.size() != 3 || w[0] != experts || (second.any() && second.parts.size() != experts))
    return fail("every expert needs a pair, " + std::to_string(experts) + " have one");
  StoredAxes axes = axes_of_container(container);
  if (axes == StoredAxes::kUnknown || axes == StoredAxes::kBoth) {
    if (!options_.expert_axes)
      return form_error(
          ErrorCode::kRefusedAmbiguous, context_, any.first_name(),
          "is for " + quote_name(joined(container, parameter)) +
              ", whose shape does not tell how it is stored; --expert-axes out-in (or in-out) does");
    axes = *options_.expert_axes == Axes::kInOut ? StoredAxes::kInOut : StoredAxes::kOutIn;
  }
  const bool turned = axes == StoredAxes::kInOut;
  const uint64_t out = turned ? w[2] : w[1], in = turned ? w[1] : w[2];
  const TensorData *a0 = any.find(PeftPart::kLoraA), *b0 = any.find(PeftPart::kLoraB);
  if (a0->shape.size() != 2 || b0->shape.size() != 2) return fail("a pair of an expert needs matrices");
  const uint64_t rank = a0->shape[0], half = second.any() ? out / 2 : out;
  std::optional<double> scale;
  bool shared = second.any();  // gate and up have the same A
  for (const SinglePairs* kind : {&first, &second}) {
    for (const ModuleParts* parts : kind->parts) {
      const TensorData *a = parts->find(PeftPart::kLoraA), *b = parts->find(PeftPart::kLoraB);
      if (a->dtype != a0->dtype || b->dtype != a0->dtype || a->shape != Shape{rank, in} ||
          b->shape != Shape{half, rank} || parts->has(PeftPart::kMagnitude) ||
          parts->has(PeftPart::kLoraBBias))
        return shape_error(
            context_, *parts, view(index),
            "the pairs of a fused matrix need one shape, one dtype, and neither magnitudes nor biases");
      TFTF_TRY(check_rank(context_, *parts, parts->own, rank));
      const auto own = scale_of(context_, parts->own, rank);
      if (!own) return own.error();
      if (scale && *scale != *own) return fail("the experts have different scales");
      scale = *own;
    }
  }
  for (uint64_t e = 0; e < experts && shared; ++e)
    shared = first.parts[to_size(e)]->find(PeftPart::kLoraA)->bytes ==
             second.parts[to_size(e)]->find(PeftPart::kLoraA)->bytes;
  // Gate and up with factors of their own stand side by side: their rank is twice as large, half of it zero.
  const uint64_t fused = second.any() && !shared ? 2 * rank : rank;
  const bool woven = second.any() && interleaves_gate(model_.types);
  Weave down(a0->dtype, {experts * fused, in}), up(a0->dtype, {out, fused * experts});
  for (uint64_t e = 0; e < experts; ++e) {
    for (const SinglePairs* kind : {&first, &second}) {
      if (!kind->any()) continue;
      const bool later = kind == &second;
      const TensorData &a = *kind->parts[to_size(e)]->find(PeftPart::kLoraA),
                       &b = *kind->parts[to_size(e)]->find(PeftPart::kLoraB);
      const uint64_t shift = later && !shared ? rank : 0;
      for (uint64_t k = 0; k < rank; ++k) {
        for (uint64_t i = 0; i < in; ++i) down.put(e * fused + shift + k, i, a, k, i);
        for (uint64_t o = 0; o < half; ++o)
          up.put(woven ? 2 * o + (later ? 1 : 0) : o + (later ? half : 0), (shift + k) * experts + e, b, o,
                 k);
      }
    }
  }
  const std::shared_ptr<const TensorData> a = down.take(), b = up.take();
  TFTF_TRY(place_program(any, index, [&](const TensorView& base) -> Program {
    auto program = new_program(context_, *base.shape);
    program->matrices = experts;
    program->rows = w[1];
    program->cols = w[2];
    Factor right = plain(a.get(), fused, in), left = plain(b.get(), out, fused);
    right.matrix_step = fused * in;
    left.row_step = fused * experts;
    left.col_step = experts;
    left.matrix_step = 1;
    program->delta = MergeProgram::Delta::kProduct;
    program->left = turned ? transposed(right) : left;
    program->right = turned ? transposed(left) : right;
    program->made = {a, b};
    program->scale = *scale;
    program->word = "lora r=" + std::to_string(fused) + " s=" + short_number(*scale);
    return program;
  }));
  result_.merged += experts * (second.any() ? 2 : 1);
  return {};
}

}  // namespace tftf::merging
