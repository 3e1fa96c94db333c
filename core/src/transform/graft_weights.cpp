// Names weights by their tensors.
#include "graft_weights.h"

#include <algorithm>
#include <unordered_map>

#include "quantised_tensors.h"
#include "tftf/base/affix.h"

namespace tftf::transform {
namespace {

// The module's name follows that of its codes: "a.weight" for "a.weight_packed", "b.weight" once that is "b.weight_packed".
std::string renamed_module(const QuantMatch& match, const std::string& stored, const std::string& now) {
  const std::string& module = match.module;
  const auto [end, module_end] = std::mismatch(stored.begin(), stored.end(), module.begin(), module.end());
  const std::string_view tail(stored.data() + (end - stored.begin()),
                              stored.size() - static_cast<size_t>(end - stored.begin()));
  if (!ends_with(now, tail)) return now;
  return now.substr(0, now.size() - tail.size()) + std::string(module_end, module.end());
}

}  // namespace

GraftWeights::GraftWeights(const Stream& stream) {
  const QuantisedTensors quantised(stream);
  std::unordered_map<const QuantMatch*, std::string> modules;
  names_.resize(stream.tensors.size());
  matches_.resize(stream.tensors.size());
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const StreamTensor& tensor = stream.tensors[i];
    names_[i] = tensor.name;
    const QuantMatch* match = quantised.codes(tensor);
    if (match == nullptr) continue;
    matches_[i] = match;
    names_[i] = renamed_module(*match, stream.checkpoint->info(tensor.source).name, tensor.name);
    modules.emplace(match, names_[i]);
  }
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const QuantMatch* match = quantised.companion(stream.tensors[i]);
    const auto module = match == nullptr ? modules.end() : modules.find(match);
    if (module == modules.end()) continue;
    matches_[i] = match;
    names_[i] = module->second;
  }
}

}  // namespace tftf::transform
