#include "adapter/merge_resolver.h"

#include <algorithm>

#include "adapter/merge_names.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::merging {
namespace {

constexpr size_t kUnsavedLooked = 64;  // entries of modules_to_save: more are no list of heads

}  // namespace

void Resolver::find_parameters() {
  if (config_.target_parameters.empty()) return;
  for (uint32_t i = 0; i < base_.size(); ++i) {
    const std::string_view name = base_[i].name;
    const size_t dot = name.rfind('.');
    parameters_[std::string(dot == std::string_view::npos ? "" : name.substr(0, dot))].push_back(i);
  }
}

std::vector<uint32_t> Resolver::parameters_of(const ModuleParts& parts) const {
  std::vector<uint32_t> named;
  const auto at = parameters_.find(parts.module);
  if (at == parameters_.end()) return named;
  for (const uint32_t i : at->second) {
    const std::string_view name = base_[i].name;
    if (parameter_entry(joined(parts.own, name.substr(name.rfind('.') + 1)))) named.push_back(i);
  }
  return named;
}

void Resolver::find_axes() {
  for (const ModuleParts& parts : modules_) {
    const std::optional<uint32_t> base = find_weight(parts);
    if (!base) continue;
    const Fits fits = linear_fits(context_, parts, *view(*base).shape);
    if (fits.any()) axes_.add(parts.module, fits.straight, fits.turned);
  }
}

TensorView Resolver::view(uint32_t i) const {
  TensorView view = base_[i];
  if (by_base_[i].replacement != nullptr) view.shape = &by_base_[i].replaced_shape;
  return view;
}

Result<void> Resolver::place_all(const Wrappers& wrappers) {
  const std::string& module = wrappers.front()->module;
  if (config_.method == PeftMethod::kLora)
    for (const ModuleParts* parts : wrappers) TFTF_TRY(check_pair(*parts));
  if (config_.method == PeftMethod::kLora && !config_.target_parameters.empty()) {
    auto adapted = is_target(*wrappers.front());
    if (!adapted) return std::move(adapted).error();
    const bool as_module = *adapted && by_name_.count(joined(module, "weight")) > 0;
    if (const auto named = parameters_of(*wrappers.front()); !named.empty() && !as_module)
      return place_stacks(wrappers, named);
    if (!as_module && owns_parameter(wrappers.front()->own)) {
      if (const auto experts = find_split_experts(module)) return place_on_split_experts(wrappers, *experts);
      unmatched_.push_back(module);
      return {};
    }
  }
  for (const ModuleParts* parts : wrappers) TFTF_TRY(place(*parts));
  return {};
}

Result<void> Resolver::place(const ModuleParts& parts) {
  auto verdict = is_target(parts);
  if (!verdict) return std::move(verdict).error();
  if (!*verdict) {
    ++result_.skipped;
    return {};
  }
  if (is_tied_head(parts.module)) {
    if (by_name_.count(joined(parts.module, "weight")) == 0) return place_apart(parts);
    if (!options_.untie_head) return tied_error(parts.first_name(), parts.module);
    result_.unties = true;
  }
  const std::optional<uint32_t> base = find_weight(parts);
  if (!base) {
    unmatched_.push_back(parts.module);
    return {};
  }
  return place_at(parts, *base);
}

std::optional<std::string> Resolver::attention_of(const ModuleParts& parts) const {
  constexpr std::string_view kOut = ".out_proj";
  if (!parts.module.ends_with(kOut) || !parts.own.ends_with(kOut)) return std::nullopt;
  const std::string whole = parts.module.substr(0, parts.module.size() - kOut.size());
  if (by_name_.count(whole + ".in_proj_weight") == 0) return std::nullopt;
  return parts.own.substr(0, parts.own.size() - kOut.size());
}

Result<bool> Resolver::is_target(const ModuleParts& parts) const {
  for (const auto& name : {std::optional(parts.own), attention_of(parts)}) {
    if (!name) break;
    auto verdict = targeting_->verdict(*name);
    if (!verdict) return std::move(verdict).error();
    if (*verdict == TargetVerdict::kTargeted) return true;
    if (*verdict != TargetVerdict::kNotTargeted) return false;
  }
  return false;
}

std::optional<uint32_t> Resolver::find_weight(const ModuleParts& parts) const {
  for (const std::string& name :
       {joined(parts.module, "weight"), joined(parts.module, "in_proj_weight"), parts.module}) {
    if (const auto at = by_name_.find(name); at != by_name_.end()) return at->second;
  }
  return std::nullopt;
}

Result<void> Resolver::check_pair(const ModuleParts& parts) const {
  using P = PeftPart;
  const bool linear = parts.has(P::kLoraA) || parts.has(P::kLoraB);
  const bool embedding = parts.has(P::kEmbeddingA) || parts.has(P::kEmbeddingB);
  if ((linear && !parts.has_pair()) || (embedding && !parts.has_embedding_pair()) ||
      (!linear && !embedding)) {
    return form_error(
        ErrorCode::kRefusedMissing, context_, parts.first_name(),
        "has no twin: its module " + quote_name(parts.module) + " lacks one of the pair A and B");
  }
  if (linear && embedding)
    return form_error(ErrorCode::kRefusedAmbiguous, context_, parts.first_name(),
                      "belongs to a module that has a pair of an embedding, too");
  if (config_.use_dora && !parts.has(P::kMagnitude)) {
    return form_error(ErrorCode::kRefusedMissing, context_, parts.first_name(),
                      "is of DoRA by use_dora in " + quote_name(config_.file) + ", and its module " +
                          quote_name(parts.module) + " has no lora_magnitude_vector");
  }
  return {};
}

Result<void> Resolver::place_program(const ModuleParts& parts, uint32_t i, const Make& make) {
  TFTF_TRY(check_dtype(i));
  Slot& slot = by_base_[i];
  if (slot.program != nullptr) {
    return form_error(ErrorCode::kRefusedAmbiguous, context_, parts.first_name(),
                      "and " + quote_name(slot.by) + " are both for " + quote_name(base_[i].name));
  }
  const TensorView base = view(i);
  auto program = make(base);
  if (!program) return std::move(program).error();
  slot.program = *std::move(program);
  slot.by = parts.first_name();
  return {};
}

Program Resolver::place_form(const ModuleParts& parts, const TensorView& base, const std::string& path,
                             bool* scales_bias) {
  bool ignored = false;
  switch (config_.method) {
    case PeftMethod::kLoha:
      return hadamard_program(context_, parts, base, path);
    case PeftMethod::kLokr:
      return kronecker_program(context_, parts, base, path);
    case PeftMethod::kVera:
      return vera_program(context_, parts, shared_, base, path);
    case PeftMethod::kIa3:
      return ia3_program(context_, parts, base, path, scales_bias == nullptr ? ignored : *scales_bias);
    case PeftMethod::kOft:
      return rotation_program(context_, parts, base);
    case PeftMethod::kBoft:
      return butterfly_program(context_, parts, base);
    case PeftMethod::kHra:
      return reflection_program(context_, parts, base);
    case PeftMethod::kMiss:
      return miss_program(context_, parts, base);
    case PeftMethod::kAdaLora:
      return svd_program(context_, parts, base, path);
    case PeftMethod::kLora:
    case PeftMethod::kLnTuning:
    case PeftMethod::kTrainableTokens:
      break;
  }
  return parts.has_embedding_pair() ? embedding_program(context_, parts, base, path)
                                    : low_rank_program(context_, parts, base, path);
}

Result<void> Resolver::place_at(const ModuleParts& parts, uint32_t i) {
  bool scales_bias = false;
  const std::string path = pattern_path(parts);
  TFTF_TRY(place_program(
      parts, i, [&](const TensorView& base) { return place_form(parts, base, path, &scales_bias); }));
  ++result_.merged;
  const auto bias = by_name_.find(joined(parts.module, "bias"));
  if (parts.has(PeftPart::kLoraBBias)) {
    if (bias == by_name_.end() || parts.has_embedding_pair()) {
      return form_error(
          ErrorCode::kRefusedMissing, context_, parts.parts.at(PeftPart::kLoraBBias)->name,
          "is added to a bias, and the base has no " + quote_name(joined(parts.module, "bias")));
    }
    const uint64_t rank = by_base_[i].program->right.rows;  // of the pair that was taken
    return place_program(parts, bias->second, [&](const TensorView& base) {
      return bias_program(context_, parts, base, path, rank);
    });
  }
  if (scales_bias && bias != by_name_.end()) {
    return place_program(parts, bias->second,
                         [&](const TensorView& base) { return ia3_bias_program(context_, parts, base); });
  }
  return {};
}

Result<void> Resolver::check_dtype(uint32_t i) const {
  const TensorView& base = base_[i];
  if (is_floating(base.dtype) && dtype_bits(base.dtype) >= 16) return {};
  const Slot& slot = by_base_[i];
  if (slot.program == nullptr && slot.replacement != nullptr) return {};  // checked by check_replacement()
  return Error{.code = ErrorCode::kRefusedUnsupported,
               .message = "Tensor " + quote_name(base.name) + " of the base is " +
                          std::string(dtype_name(base.dtype)) + ", into which nothing can be merged; " +
                          (is_fp8(base.dtype) ? "dequantise it in the same run: dequant-fp8 --merge-lora."
                                              : "the weights must be plain floats."),
               .tensor = std::string(base.name),
               .expected = "F32, F16, BF16 or F64",
               .found = std::string(dtype_name(base.dtype))};
}

Result<void> Resolver::place_tokens() {
  std::vector<bool> used(config_.trainable_tokens.size());
  for (const Saved& token : tokens_) {
    const TokenIndices* indices = nullptr;
    for (size_t t = 0; t < used.size(); ++t) {
      const TokenIndices& candidate = config_.trainable_tokens[t];
      if (!candidate.module.empty() && !ends_with_component(token.own, candidate.module)) continue;
      if (indices != nullptr)
        return form_error(ErrorCode::kRefusedAmbiguous, context_, token.tensor->name,
                          "is named by several entries of trainable_token_indices");
      indices = &candidate;
      used[t] = true;
    }
    if (indices == nullptr) {
      return form_error(ErrorCode::kRefusedMissing, context_, token.tensor->name,
                        "has no trainable_token_indices that say which rows it replaces");
    }
    const DType dtype = token.tensor->data.dtype;
    if (!is_floating(dtype) || dtype_bits(dtype) < 16)
      return form_error(ErrorCode::kRefusedUnsupported, context_, token.tensor->name,
                        "is " + std::string(dtype_name(dtype)) + ", which is no dtype of a weight");
    const auto at = by_name_.find(joined(token.module, "weight"));
    if (at == by_name_.end()) {
      unmatched_.push_back(token.module);
      continue;
    }
    TFTF_TRY(set_rows(token, *indices, at->second));
    ++tables_;
    TFTF_TRY(set_tied_rows(token, *indices, at->second));
  }
  for (size_t t = 0; t < used.size(); ++t) {
    if (used[t] || config_.trainable_tokens[t].rows.empty()) continue;
    const std::string& module = config_.trainable_tokens[t].module;
    return refuse(ErrorCode::kRefusedMissing,
                  "lacks the rows that trainable_token_indices names" +
                      (module.empty() ? std::string() : " for " + quote_name(module)) +
                      " (token_adapter.trainable_tokens_delta)");
  }
  if (!tokens_.empty() && options_.scale != 1)
    result_.notices.push_back("--scale does not touch the rows of trained tokens: they are stored whole.");
  return {};
}

Result<void> Resolver::set_rows(const Saved& token, const TokenIndices& indices, uint32_t i) {
  TFTF_TRY(check_dtype(i));
  auto rows = token_program(context_, *token.tensor, indices.rows, view(i));
  if (!rows) return std::move(rows).error();
  Slot& slot = by_base_[i];
  if (slot.program == nullptr) {
    slot.program = *std::move(rows);
    slot.by = token.tensor->name;
    return {};
  }
  if (slot.program->set_rows != nullptr) return twice(token.tensor->name, std::string(base_[i].name));
  auto both = std::make_shared<MergeProgram>(*slot.program);
  both->set_rows = (*rows)->set_rows;
  both->set_row_numbers = std::move((*rows)->set_row_numbers);
  both->word += " + " + (*rows)->word;
  slot.program = std::move(both);
  return {};
}

Result<void> Resolver::set_tied_rows(const Saved& token, const TokenIndices& indices, uint32_t i) {
  if (!tied_ && !model_.tied.value_or(false)) return {};
  const auto head = by_name_.find("lm_head.weight");
  if (head == by_name_.end() || head->second == i || *base_[head->second].shape != *base_[i].shape) return {};
  const bool own = std::any_of(tokens_.begin(), tokens_.end(),
                               [&](const Saved& other) { return other.module == "lm_head"; });
  if (own || by_base_[head->second].replacement != nullptr) return {};
  result_.notices.push_back("\"lm_head.weight\" is tied to " + quote_name(base_[i].name) +
                            " and gets the same rows.");
  return set_rows(token, indices, head->second);
}

void Resolver::note_tied_weights() {
  if (!tied_ || result_.unties) return;
  const auto head = by_name_.find("lm_head.weight");
  const bool stored = head != by_name_.end();
  if (stored && (by_base_[head->second].program != nullptr || by_base_[head->second].replacement != nullptr))
    return;
  for (const auto& change : result_.changes) {
    const bool merged = change.program != nullptr && change.program->delta != MergeProgram::Delta::kNone;
    if (!merged && change.replacement == nullptr) continue;
    const std::string_view table = base_[change.base].name;
    if (!table.ends_with("embed_tokens.weight") && !table.ends_with("wte.weight")) continue;
    result_.notices.push_back(stored ? "\"lm_head.weight\" is stored, tied to " + quote_name(table) +
                                           " by tie_word_embeddings, and stays as it is: loaders that tie "
                                           "the two overwrite it, others "
                                           "do not see the change."
                                     : "The output head is tied to " + quote_name(table) +
                                           ", so that changing it changes the output, too.");
  }
}

void Resolver::note_unsaved_modules() {
  for (size_t i = 0; i < std::min(config_.modules_to_save.size(), kUnsavedLooked); ++i) {
    const std::string& entry = config_.modules_to_save[i];
    const bool saved = std::any_of(saved_.begin(), saved_.end(),
                                   [&](const Saved& tensor) { return covers_module(entry, tensor.own); });
    if (saved) continue;
    const auto in_base = std::find_if(base_.begin(), base_.end(), [&](const TensorView& tensor) {
      const size_t dot = tensor.name.rfind('.');
      return dot != std::string_view::npos && covers_module(entry, tensor.name.substr(0, dot));
    });
    if (in_base == base_.end()) continue;  // the default names heads of several architectures
    result_.notices.push_back(
        "modules_to_save of " + quote_name(config_.file) + " names " + quote_name(entry) +
        ", of which the adapter has no tensors: " + quote_name(in_base->name) + " stays the base's.");
  }
}

void Resolver::note_undeclared_dora() {
  if (!config_.present || config_.use_dora) return;
  const auto count = std::count_if(modules_.begin(), modules_.end(),
                                   [](const ModuleParts& parts) { return parts.has(PeftPart::kMagnitude); });
  if (count == 0) return;
  result_.notices.push_back(
      counted(static_cast<uint64_t>(count), "module") +
      " of the adapter has a magnitude and is merged as DoRA, although use_dora is not set "
      "in " +
      quote_name(config_.file) + " (PEFT would leave the magnitudes out).");
}

}  // namespace tftf::merging
