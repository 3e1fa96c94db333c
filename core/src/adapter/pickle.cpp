#include "tftf/adapter/pickle.h"

namespace tftf {

std::span<const PickleId> Pickle::items(PickleId id) const { return lists_[nodes_[id].items]; }

std::optional<PickleId> Pickle::find(PickleId dict, std::string_view key) const {
  if (nodes_[dict].kind != PickleNode::Kind::kDict) return std::nullopt;
  const auto entries = items(dict);
  for (size_t i = entries.size(); i >= 2; i -= 2)
    if (nodes_[entries[i - 2]].kind == PickleNode::Kind::kText && nodes_[entries[i - 2]].text == key)
      return entries[i - 1];
  return std::nullopt;
}

std::optional<PickleId> Pickle::attribute(PickleId object, std::string_view name) const {
  if (nodes_[object].kind != PickleNode::Kind::kObject) return std::nullopt;
  return find(nodes_[object].state, name);
}

bool Pickle::is_global(PickleId id, std::string_view module, std::string_view name) const {
  return nodes_[id].kind == PickleNode::Kind::kGlobal && nodes_[id].module == module &&
         nodes_[id].text == name;
}

std::optional<uint64_t> Pickle::size(PickleId id) const {
  if (nodes_[id].kind != PickleNode::Kind::kInt || nodes_[id].integer < 0) return std::nullopt;
  return static_cast<uint64_t>(nodes_[id].integer);
}

std::optional<std::vector<uint64_t>> Pickle::sizes(PickleId id) const {
  if (nodes_[id].kind != PickleNode::Kind::kTuple && nodes_[id].kind != PickleNode::Kind::kList)
    return std::nullopt;
  std::vector<uint64_t> out;
  for (PickleId item : items(id)) {
    const auto value = size(item);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::string_view> Pickle::text(PickleId id) const {
  if (nodes_[id].kind != PickleNode::Kind::kText) return std::nullopt;
  return nodes_[id].text;
}

}  // namespace tftf
