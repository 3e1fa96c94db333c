// Output heads that are tied to the embeddings: a change of one of the two is a change of both, or unties them.
#include <algorithm>

#include "adapter/merge_names.h"
#include "adapter/merge_resolver.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

constexpr std::string_view kHeadWords[] = {"lm_head", "embed_out"};
constexpr std::string_view kTableWords[] = {"embed_tokens", "wte", "word_embeddings", "embed_in",
                                            "tok_embeddings"};

template <size_t N>
bool ends_in_word(const std::string_view (&words)[N], std::string_view module) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return ends_with_component(module, word); });
}

}  // namespace

void Resolver::find_tied() {
  bool head = false;
  for (uint32_t i = 0; i < base_.size(); ++i) {
    std::string_view module = base_[i].name;
    if (!module.ends_with(".weight")) continue;
    module.remove_suffix(7);
    head = head || ends_in_word(kHeadWords, module);
    if (ends_in_word(kTableWords, module) && !embeddings_) embeddings_ = i;
  }
  // A configuration that does not say means what its class does: a model without a head of its own has a tied one.
  tied_ = embeddings_ && model_.tied.value_or(!head && !model_.types.empty());
}

bool Resolver::is_tied_head(std::string_view module) const {
  return tied_ && ends_in_word(kHeadWords, module);
}

bool Resolver::stays_tied(const Saved& saved) const {
  if (options_.untie_head || !saved.name.ends_with(".weight")) return false;
  return std::any_of(saved_.begin(), saved_.end(), [&](const Saved& other) {
    return other.name == base_[*embeddings_].name && other.tensor->data.dtype == saved.tensor->data.dtype &&
           other.tensor->data.shape == saved.tensor->data.shape &&
           other.tensor->data.bytes == saved.tensor->data.bytes;
  });
}

Error Resolver::tied_error(const std::string& tensor, const std::string& module) const {
  return form_error(
      ErrorCode::kRefusedUnmatched, context_, tensor,
      "changes " + quote_name(module) + ", which is tied to " + quote_name(base_[*embeddings_].name) +
          " (tie_word_embeddings): a reader would take the embeddings for it. --untie-head writes it "
          "apart and sets tie_word_embeddings to false");
}

Result<void> Resolver::place_apart(const ModuleParts& parts) {
  if (!options_.untie_head) return tied_error(parts.first_name(), parts.module);
  const std::string name = joined(parts.module, "weight");
  MergeResolution::Added& added = added_[name];
  added.name = name;
  TensorView base = base_[*embeddings_];
  base.name = name;
  if (added.data == nullptr) {
    added.copy_of = *embeddings_;
    TFTF_TRY(check_dtype(*embeddings_));
  } else {
    base.dtype = added.data->dtype;
    base.shape = &added.data->shape;
  }
  const std::string path = pattern_path(parts);
  Program program = place_form(parts, base, path);
  if (!program) return std::move(program).error();
  added.program = *std::move(program);
  result_.unties = true;
  ++result_.merged;
  return {};
}

void Resolver::follow_embeddings() {
  if (embeddings_ && by_base_[*embeddings_].replacement != nullptr) {
    const Shape &was = *base_[*embeddings_].shape, &is = by_base_[*embeddings_].replaced_shape;
    if (!was.empty() && !is.empty() && was[0] != is[0]) result_.vocab_size = is[0];
  }
  if (!result_.unties) return;
  result_.notices.push_back(
      "Output head and embeddings differ from here on: tie_word_embeddings is set to false.");
}

}  // namespace tftf::merging
