// Experts of models without a family table: how many, and in which form.
#include <algorithm>
#include <iterator>
#include <map>

#include "lint/config/model_facts.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kCountKeys[] = {"n_routed_experts", "num_experts", "num_local_experts",
                                           "moe_num_experts"};
// Counts that differ from layer to layer.
constexpr std::string_view kPerLayerKeys[] = {"block_configs", "per_layer_config", "num_experts_per_layer"};
// Types whose published files hold one tensor per expert.
constexpr std::string_view kPerExpertTypes[] = {
    "mixtral",  "qwen2_moe", "qwen3_moe",  "deepseek_v2",  "deepseek_v3", "olmoe", "phimoe",
    "glm4_moe", "minimax",   "minimax_m2", "ernie4_5_moe", "dots1",       "jamba", "hunyuan_v1_moe"};

// A name below the experts of a layer.
struct ExpertPlace {
  std::string_view path;  // "model.layers.0.mlp.experts"
  std::string_view rest;  // behind its dot
};

// Nothing in towers and prediction layers.
std::optional<ExpertPlace> parse_expert_place(std::string_view name) {
  bool after_layers = false, in_layer = false, excluded = false;
  std::optional<size_t> end;
  for_each_component(name, [&](std::string_view component) {
    excluded = excluded || contains(component, "mtp");
    in_layer = in_layer || (after_layers && component_number(component));
    after_layers = component == "layers" || component == "h" || component == "blocks";
    if (!end && in_layer && component == "experts")
      end = static_cast<size_t>(component.data() + component.size() - name.data());
  });
  if (!end || *end == name.size() || excluded || in_tower(name)) return std::nullopt;
  return ExpertPlace{name.substr(0, *end), name.substr(*end + 1)};
}

struct ExpertPath {
  std::vector<uint32_t> numbers;
  std::vector<uint64_t> stacked;  // first dimensions of stacked tensors
};

// How many experts a path holds where that is not `expected`.
std::optional<DiagnosticValue> other_count(ExpertPath& path, uint64_t expected) {
  std::vector<uint32_t>& numbers = path.numbers;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (!numbers.empty() && numbers.size() != expected) return static_cast<uint64_t>(numbers.size());
  if (!numbers.empty() && numbers.back() + uint64_t{1} != expected)
    return std::to_string(numbers.size()) + " with numbers up to " + std::to_string(numbers.back());
  for (const uint64_t count : path.stacked)
    if (count != expected) return count;
  return std::nullopt;
}

void check_expert_count(Diagnostics& out, const ModelFacts& facts) {
  if (facts.has_family || !facts.complete()) return;
  for (const std::string_view key : kPerLayerKeys)
    if (facts.config.get(key)) return;
  const auto key = std::find_if(std::begin(kCountKeys), std::end(kCountKeys),
                                [&](std::string_view one) { return facts.config.get(one); });
  if (key == std::end(kCountKeys)) return;
  const std::optional<int64_t> declared = facts.config.integer(*key);
  if (!declared || *declared < 1) return;
  const auto expected = static_cast<uint64_t>(*declared);
  std::map<std::string_view, ExpertPath> paths;
  for (const ConfigTensor& tensor : facts.folder.tensors) {
    const std::optional<ExpertPlace> name = parse_expert_place(tensor.name);
    if (!name) continue;
    const size_t dot = name->rest.find('.');
    if (const auto number = component_number(name->rest.substr(0, dot)))
      paths[name->path].numbers.push_back(*number);
    else if (tensor.shape->size() >= 3 &&
             (dot == std::string_view::npos || name->rest.find('.', dot + 1) == std::string_view::npos))
      paths[name->path].stacked.push_back((*tensor.shape)[0]);
  }
  std::string_view first;
  DiagnosticValue found;
  uint64_t count = 0;
  for (auto& [path, experts] : paths) {
    std::optional<DiagnosticValue> other = other_count(experts, expected);
    if (!other || count++ > 0) continue;
    first = path;
    found = std::move(*other);
  }
  if (count == 0) return;
  add_config_finding(out, facts, Rule::CF043, std::string(first),
                     {{"key", std::string(*key)},
                      {"expected", expected},
                      {"path", std::string(first)},
                      {"found", std::move(found)},
                      {"count", count}},
                     *key);
}

void check_expert_form(Diagnostics& out, const ModelFacts& facts) {
  if (std::find(std::begin(kPerExpertTypes), std::end(kPerExpertTypes), facts.model_type) ==
      std::end(kPerExpertTypes))
    return;
  constexpr std::string_view kExperts = "experts";
  uint64_t count = 0;
  std::string_view first;
  for (const ConfigTensor& tensor : facts.folder.tensors) {
    bool after_experts = false, single = false;
    std::string_view before, last;
    for_each_component(tensor.name, [&](std::string_view component) {
      single = single || (after_experts && component_number(component));
      after_experts = component == kExperts;
      before = last;
      last = component;
    });
    if (single) return;
    const bool stacked = before == kExperts && tensor.shape->size() == 3 &&
                         (last == "gate_up_proj" || last == "down_proj" || last == "up_proj");
    if (stacked && (count++ == 0 || tensor.name < first)) first = tensor.name;
  }
  if (count == 0) return;
  add_config_finding(
      out, facts, Rule::CF044, std::string(first),
      {{"count", count}, {"tensor", std::string(first)}, {"model_type", std::string(facts.model_type)}});
}

}  // namespace

void check_experts(Diagnostics& out, const ModelFacts& facts) {
  check_expert_count(out, facts);
  check_expert_form(out, facts);
}

}  // namespace tftf
