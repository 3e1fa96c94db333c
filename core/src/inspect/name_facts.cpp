// Layout of names and form of experts, as names alone tell them.
#include <unordered_map>

#include "tftf/checkpoint/layout_names.h"
#include "tftf/inspect/info.h"

namespace tftf {

std::optional<NameFacts> find_name_facts(const Checkpoint& checkpoint) {
  const std::optional<ModelEntry> entry = known_model_entry(checkpoint.config());
  if (!entry) return std::nullopt;
  const LayoutNames names(*entry);
  LayoutVote vote(names);
  struct Forms {
    bool split = false, fused = false;
  };
  std::unordered_map<std::string, Forms> containers;
  for (const TensorRef tensor : checkpoint.order) {
    const std::string_view name = checkpoint.info(tensor).name;
    vote.add(name);
    const std::optional<ExpertName> expert = parse_expert_name(entry->experts(), name);
    if (!expert) continue;
    const bool split = expert->what == ExpertName::What::kSplit;
    if (!split && expert->what != ExpertName::What::kFused) continue;
    // Where the split form lies elsewhere it is the same container.
    Forms& forms = containers[std::string(expert->prefix) + std::string(expert->kind->path[expert->under])];
    (split ? forms.split : forms.fused) = true;
  }
  NameFacts facts{.layout = vote.layout(), .to5 = vote.to5(), .to4 = vote.to4()};
  for (const auto& [path, forms] : containers) {
    facts.split += forms.split ? 1 : 0;
    facts.fused += forms.fused ? 1 : 0;
    facts.mixed += forms.split && forms.fused ? 1 : 0;
  }
  return facts;
}

}  // namespace tftf
