// A folder for the configuration rules, made from a family's own table.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "lint/config/dimensions.h"
#include "lint/config/family_table.h"
#include "tftf/lint/config_rules.h"

namespace tftf {

struct SyntheticTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::BF16;
};

struct SyntheticModel {
  std::string config;
  std::vector<SyntheticTensor> tensors;
  ConfigInput input;

  SyntheticTensor& at(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  }
  void drop(std::string_view name) {
    tensors.erase(
        std::remove_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; }),
        tensors.end());
  }
  void add(std::string name, Shape shape, DType dtype = DType::BF16) {
    tensors.push_back({std::move(name), std::move(shape), dtype});
  }
  // The rule findings; `input` is completed from the other members first.
  Diagnostics check(std::optional<TiedTensors>* tied = nullptr) {
    std::vector<ConfigTensor> views;
    for (const SyntheticTensor& t : tensors)
      views.push_back({t.name, t.dtype, &t.shape, *element_count(t.shape) * dtype_bits(t.dtype) / 8});
    input.config_text = config;
    input.has_model_file = input.has_checked_file = true;
    input.tensors = views;
    return check_config(input, tied);
  }
  // "CF010 lm_head.weight", … sorted.
  std::vector<std::string> report() {
    std::vector<std::string> out;
    for (const Diagnostic& d : check())
      out.push_back(std::string(rule_info(d.rule).id) + (d.subject ? " " + *d.subject : ""));
    std::sort(out.begin(), out.end());
    return out;
  }
};

// Every required tensor; of groups those of `group`, experts with group B (or without groups); optional
// tensors when `optional` and their dimensions are known.
inline SyntheticModel synthetic_model(std::string config, char group, bool optional = false) {
  SyntheticModel model;
  model.config = std::move(config);
  const JsonDocument document = parse_json(model.config, JsonDialect::kPython);
  const Family& family = *find_family(*document.root.string("model_type")).family;
  const Dimensions dimensions(family, document.root);
  auto add = [&](const std::string& prefix, const FamilyEntry& entry) {
    if (entry.optional && !optional) return;
    Shape shape;
    for (const FamilyDimension& d : entry.shape) {
      if (d.symbol == FamilyDimension::kLiteral) {
        shape.push_back(d.literal);
        continue;
      }
      const auto value = dimensions.evaluate(family.symbols[d.symbol].expression).value;
      if (!value) return;
      shape.push_back(*value);
    }
    model.add(prefix + std::string(entry.name), std::move(shape));
  };
  uint64_t experts = 0;
  for (const FamilySymbol& symbol : family.symbols)
    if (symbol.rule == Rule::CF017) experts = *dimensions.evaluate(symbol.expression).value;
  for (const FamilyEntry& entry : family.top.entries) add("", entry);
  for (const FamilyStack& stack : family.stacks) {
    const uint64_t layers = *dimensions.key_or(stack.count_key, stack.count_otherwise).value;
    for (uint64_t i = 0; i < layers; ++i) {
      const std::string prefix = std::string(stack.prefix) + std::to_string(i) + ".";
      for (const FamilyEntry& entry : stack.names.entries)
        if (entry.group == 0 || entry.group == group) add(prefix, entry);
      if (stack.has_groups && group != 'B') continue;
      for (uint64_t e = 0; e < experts; ++e)
        for (const FamilyEntry& entry : stack.experts.entries)
          add(prefix + std::string(stack.expert_prefix) + std::to_string(e) + ".", entry);
    }
  }
  return model;
}

}  // namespace tftf
