// Names of a model that was saved while something wrapped it.
#include <algorithm>
#include <iterator>

#include "lint/config/model_facts.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kWrapperPrefixes[] = {"module.", "_orig_mod.", "_fsdp_wrapped_module.",
                                                 "base_model.model."};
constexpr std::string_view kWrapperComponents[] = {"_orig_mod", "_orig_module", "_fsdp_wrapped_module",
                                                   "_checkpoint_wrapped_module"};

void check_base_layers(Diagnostics& out, const ModelFacts& facts) {
  uint64_t count = 0;
  std::string_view first;
  for (const ConfigTensor& tensor : facts.folder.tensors) {
    const size_t dot = tensor.name.rfind('.');
    if (dot == std::string_view::npos || !ends_with(tensor.name.substr(0, dot), ".base_layer")) continue;
    if (count++ == 0 || tensor.name < first) first = tensor.name;
  }
  if (count == 0) return;
  add_config_finding(out, facts, Rule::CF045, std::string(first),
                     {{"count", count}, {"tensor", std::string(first)}});
}

std::string_view find_kept_wrapper(const ModelFacts& facts) {
  const auto tensors = facts.folder.tensors;
  if (!facts.has_family && !tensors.empty())
    for (const std::string_view prefix : kWrapperPrefixes)
      if (std::all_of(tensors.begin(), tensors.end(),
                      [&](const ConfigTensor& tensor) { return starts_with(tensor.name, prefix); }))
        return prefix;
  bool found[std::size(kWrapperComponents)] = {};
  for (const ConfigTensor& tensor : tensors) {
    if (!contains(tensor.name, "._")) continue;
    for_each_component(tensor.name, [&](std::string_view component) {
      if (component.data() == tensor.name.data()) return;
      for (size_t i = 0; i < std::size(kWrapperComponents); ++i)
        found[i] = found[i] || component == kWrapperComponents[i];
    });
  }
  for (size_t i = 0; i < std::size(kWrapperComponents); ++i)
    if (found[i]) return kWrapperComponents[i];
  return {};
}

}  // namespace

void check_wrappers(Diagnostics& out, const ModelFacts& facts) {
  check_base_layers(out, facts);
  if (const std::string_view wrapper = find_kept_wrapper(facts); !wrapper.empty())
    add_config_finding(out, facts, Rule::CF046, std::string(wrapper), {{"prefix", std::string(wrapper)}});
}

}  // namespace tftf
