#include "lint/config/family_survey.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <tuple>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr size_t kMaxListed = 24;  // missing names of one layer: more help nobody

constexpr std::string_view kWrappers[] = {"module.", "_orig_mod.", "base_model.model.", "model.",
                                          "_fsdp_wrapped_module."};

// The wrapper prefix that makes every name fit, when none fits as it is.
std::string_view find_wrapper(const Family& family, std::span<const ConfigTensor> tensors, bool companions) {
  for (const ConfigTensor& tensor : tensors)
    if (find_place(family, tensor.name, companions).in_table()) return {};
  for (std::string_view wrapper : kWrappers) {
    bool some = false;
    const bool all = std::all_of(tensors.begin(), tensors.end(), [&](const ConfigTensor& tensor) {
      if (!starts_with(tensor.name, wrapper)) return false;
      const std::string_view name = tensor.name.substr(wrapper.size());
      const FamilyPlace place = find_place(family, name, companions);
      some = some || place.in_table();
      return place.in_table() || is_legacy_buffer(name);
    });
    if (all && some) return wrapper;
  }
  return {};
}

void join_experts(std::vector<StoredExpert>& experts) {
  std::sort(experts.begin(), experts.end(), [](const StoredExpert& a, const StoredExpert& b) {
    return std::tie(a.layer, a.expert) < std::tie(b.layer, b.expert);
  });
  size_t used = 0;
  for (const StoredExpert& one : experts) {
    if (used > 0 && experts[used - 1].layer == one.layer && experts[used - 1].expert == one.expert)
      experts[used - 1].members |= one.members;
    else
      experts[used++] = one;
  }
  experts.resize(used);
}

}  // namespace

std::span<const StoredExpert> StoredStack::experts_of(uint32_t layer) const {
  const auto first = std::lower_bound(experts.begin(), experts.end(), layer,
                                      [](const StoredExpert& one, uint32_t l) { return one.layer < l; });
  auto last = first;
  while (last != experts.end() && last->layer == layer) ++last;
  return {experts.data() + (first - experts.begin()), static_cast<size_t>(last - first)};
}

FamilySurvey survey_family(const Family& family, std::span<const ConfigTensor> tensors, bool companions) {
  FamilySurvey survey;
  survey.wrapper = find_wrapper(family, tensors, companions);
  survey.places.reserve(tensors.size());
  survey.stacks.resize(family.stacks.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const FamilyPlace place = find_place(family, tensors[i].name.substr(survey.wrapper.size()), companions);
    survey.places.push_back(place);
    survey.prefixed = survey.prefixed || place.prefixed;
    const uint64_t bit = uint64_t{1} << (place.entry % 64);
    if (place.kind == FamilyPlace::Kind::kTop) {
      survey.top |= bit;
      const std::string_view name = family.top.entries[place.entry].name;
      if (name == family.head) {
        survey.head_stored = true;
        if (place.exact) survey.head = i;
      }
      if (name == family.embedding && place.exact) survey.embedding = i;
    }
    if (!place.in_layers()) continue;
    StoredStack& stack = survey.stacks[place.stack];
    uint64_t& stored = stack.layers[place.layer];
    if (place.kind == FamilyPlace::Kind::kLayer) stored |= bit;
    if (place.kind == FamilyPlace::Kind::kExpert) stack.experts.push_back({place.layer, place.expert, bit});
  }
  for (StoredStack& stack : survey.stacks) join_experts(stack.experts);
  return survey;
}

std::optional<uint32_t> fused_layer(const FamilyStack& stack, const ConfigTensor& tensor,
                                    std::string_view prefix) {
  constexpr std::string_view kFused[] = {"gate_up_proj", "gate_proj", "up_proj", "down_proj"};
  constexpr std::string_view kWeight = ".weight";
  std::string_view rest = tensor.name;
  if (stack.expert_prefix.empty() || tensor.shape->size() != 3 || !starts_with(rest, prefix))
    return std::nullopt;
  rest.remove_prefix(prefix.size());
  const size_t dot = std::min(rest.find('.'), rest.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + dot, layer);
  if (error != std::errc() || end != rest.data() + dot || dot == rest.size()) return std::nullopt;
  rest.remove_prefix(dot + 1);
  std::string_view experts = stack.expert_prefix;
  if (!stack.later.empty() && starts_with(rest, stack.later)) {
    rest.remove_prefix(stack.later.size());
    if (!starts_with(experts, stack.released)) return std::nullopt;
    experts.remove_prefix(stack.released.size());
  }
  if (!starts_with(rest, experts)) return std::nullopt;
  rest.remove_prefix(experts.size());
  if (ends_with(rest, kWeight)) rest.remove_suffix(kWeight.size());
  if (std::find(std::begin(kFused), std::end(kFused), rest) == std::end(kFused)) return std::nullopt;
  return layer;
}

std::map<uint32_t, const ConfigTensor*> fused_experts(const FamilyStack& stack,
                                                      std::span<const ConfigTensor> tensors,
                                                      std::string_view prefix) {
  std::map<uint32_t, const ConfigTensor*> fused;
  for (const ConfigTensor& tensor : tensors)
    if (const auto layer = fused_layer(stack, tensor, prefix)) fused.emplace(*layer, &tensor);
  return fused;
}

std::vector<std::string> missing_in_layer(const FamilyStack& stack, const StoredStack& stored, uint32_t layer,
                                          uint64_t bits) {
  const std::span<const StoredExpert> experts = stored.experts_of(layer);
  std::array<uint64_t, 2> members{}, held{};
  for (size_t e = 0; e < stack.names.entries.size(); ++e)
    if (const char group = stack.names.entries[e].group; group != 0) {
      ++members[group - 'A'];
      held[group - 'A'] += bits >> e & 1;
    }
  // The group that the layer was meant to have: the complete one, else the one with more of it.
  char group = 'A';
  const bool complete_a = held[0] == members[0], complete_b = held[1] == members[1];
  if (!complete_a && (complete_b || held[1] > held[0] || (held[0] == 0 && !experts.empty()))) group = 'B';
  std::vector<std::string> missing;
  for (size_t e = 0; e < stack.names.entries.size(); ++e) {
    const FamilyEntry& entry = stack.names.entries[e];
    if (entry.optional || (bits >> e & 1) || (entry.group != 0 && entry.group != group)) continue;
    missing.emplace_back(entry.name);
  }
  for (const StoredExpert& expert : experts)
    for (size_t e = 0; e < stack.experts.entries.size(); ++e)
      if (!(expert.members >> e & 1))
        missing.push_back(std::string(stack.expert_prefix) + std::to_string(expert.expert) + "." +
                          std::string(stack.experts.entries[e].name));
  if (missing.size() > kMaxListed) {
    const size_t more = missing.size() - kMaxListed;
    missing.resize(kMaxListed);
    missing.push_back("and " + std::to_string(more) + " more");
  }
  return missing;
}

}  // namespace tftf
