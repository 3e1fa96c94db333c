// Names of the other layout, and experts that are not whole, by the table of model types (spec experts 9).
#include <algorithm>
#include <map>
#include <set>

#include "lint/config/model_facts.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/checkpoint/layout_names.h"

namespace tftf {
namespace {

void check_layout_names(Diagnostics& out, const ModelFacts& facts, const LayoutNames& names) {
  LayoutVote vote(names);
  std::string_view first;
  for (const ConfigTensor& tensor : facts.folder.tensors) {
    const uint64_t before = vote.to4();
    vote.add(tensor.name);
    if (vote.to4() > before && (first.empty() || tensor.name < first)) first = tensor.name;
  }
  if (vote.layout() != NameLayout::kTransformers5) return;
  add_config_finding(
      out, facts, Rule::CF060, std::string(first),
      {{"count", vote.to4()}, {"tensor", std::string(first)}, {"model_type", std::string(facts.model_type)}});
}

// One of those that every expert needs; what was only seen while calibrating (input scales) may be absent.
bool is_needed(std::string_view suffix) {
  return suffix == "weight" || suffix == "weight_packed" || suffix == "qweight";
}

struct ExpertsSeen {
  bool fused = false;
  std::set<uint64_t> numbers;
  std::map<std::pair<ExpertName::Part, std::string>, std::set<uint64_t>> parts;  // by part and suffix
  const ExpertKind* kind = nullptr;
};

std::string_view part_of(const ExpertKind& kind, ExpertName::Part part) {
  return part == ExpertName::Part::kGate ? kind.gate : part == ExpertName::Part::kUp ? kind.up : kind.down;
}

// What is wrong with the experts of a container, a phrase; empty: nothing. `whole`: single experts are to be whole.
std::string fault_of(const ExpertsSeen& seen, bool whole) {
  if (seen.fused && !seen.parts.empty()) return "holds experts one by one beside tensors of all of them";
  if (seen.parts.empty() || !whole) return "";
  std::set<std::string> suffixes;
  for (const auto& [key, numbers] : seen.parts) suffixes.insert(key.second);
  for (const std::string& suffix : suffixes) {
    std::set<uint64_t> any;
    for (const auto& [key, numbers] : seen.parts)
      if (key.second == suffix) any.insert(numbers.begin(), numbers.end());
    for (const auto part : {ExpertName::Part::kGate, ExpertName::Part::kUp, ExpertName::Part::kDown}) {
      const std::string_view name = part_of(*seen.kind, part);
      const auto at = seen.parts.find({part, suffix});
      if (name.empty()) continue;
      for (const uint64_t number : any)
        if (at == seen.parts.end() || at->second.count(number) == 0)
          return "has no " + std::string(name) + "." + suffix + " of expert " + std::to_string(number);
    }
  }
  return "";
}

void check_expert_parts(Diagnostics& out, const ModelFacts& facts, const ModelEntry& entry,
                        const LayoutNames& names) {
  std::map<std::string, ExpertsSeen> containers;
  for (const ConfigTensor& tensor : facts.folder.tensors) {
    const auto name = parse_expert_name(entry.experts(), tensor.name);
    if (!name || names.keeps(tensor.name)) continue;
    const bool split = name->what == ExpertName::What::kSplit, fused = name->what == ExpertName::What::kFused;
    if (!fused && (!split || !is_needed(name->rest))) continue;
    ExpertsSeen& seen = containers[std::string(name->prefix) + std::string(name->kind->path[name->under])];
    seen.kind = name->kind;
    if (fused) {
      seen.fused = seen.fused || name->rest.empty();
      continue;
    }
    const auto number = json_unsigned(name->number);
    if (number) seen.parts[{name->part, std::string(name->rest)}].insert(*number);
  }
  std::string first, detail;
  uint64_t count = 0;
  for (const auto& [path, seen] : containers) {
    std::string fault = fault_of(seen, !facts.has_family);  // a family's table tells what is missing
    if (fault.empty() || count++ > 0) continue;
    first = path;
    detail = std::move(fault);
  }
  if (count == 0) return;
  add_config_finding(out, facts, Rule::CF061, first,
                     {{"path", first}, {"detail", std::move(detail)}, {"count", count}});
}

}  // namespace

void check_layout(Diagnostics& out, const ModelFacts& facts) {
  if (facts.is_mlx || facts.folder.is_colibri || !facts.complete()) return;
  const auto entry = known_model_entry(&facts.config.root());
  if (!entry) return;
  const LayoutNames names(*entry);
  check_layout_names(out, facts, names);
  check_expert_parts(out, facts, *entry, names);
}

}  // namespace tftf
