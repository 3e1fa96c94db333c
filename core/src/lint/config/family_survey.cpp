#include "lint/config/family_survey.h"

#include <algorithm>
#include <tuple>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

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

}  // namespace tftf
