// Parts of a model that its configuration announces and no tensor belongs to: prediction layers, towers.
#include <algorithm>
#include <set>

#include "lint/config/model_facts.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kPredictionKeys[] = {"num_nextn_predict_layers", "mtp_num_hidden_layers"};

// What names say about prediction layers.
struct PredictionNames {
  bool named = false;          // a component of its own, such as `mtp`
  bool parts = false;          // `eh_proj`, `enorm`, `hnorm`
  std::set<uint32_t> numbers;  // of layers behind the model's own

  void look(std::string_view name, uint64_t own_layers) {
    std::optional<uint32_t> layer;
    bool after_layers = false;
    for_each_component(name, [&](std::string_view component) {
      named = named || starts_with(component, "mtp") || starts_with(component, "nextn");
      parts = parts || component == "eh_proj" || component == "enorm" || component == "hnorm";
      if (after_layers && !layer) layer = component_number(component);
      after_layers = component == "layers";
    });
    if (layer && *layer >= own_layers && !in_tower(name)) numbers.insert(*layer);
  }
};

void check_prediction_layers(Diagnostics& out, const ModelFacts& facts) {
  std::string_view key;
  uint64_t wanted = 0;
  for (const std::string_view candidate : kPredictionKeys)
    if (const auto count = facts.config.integer(candidate); wanted == 0 && count && *count >= 1) {
      key = candidate;
      wanted = static_cast<uint64_t>(*count);
    }
  const std::optional<int64_t> layers = facts.config.integer("num_hidden_layers");
  if (wanted == 0 || !layers || *layers < 0 || facts.is_mlx || !facts.complete()) return;
  PredictionNames found;
  for (const ConfigTensor& tensor : facts.folder.tensors)
    found.look(tensor.name, static_cast<uint64_t>(*layers));
  for (const std::string_view name : facts.folder.other_names)
    found.look(name, static_cast<uint64_t>(*layers));
  const bool absent = found.numbers.empty() && !found.parts;
  const bool partial = !found.numbers.empty() && found.numbers.size() < wanted;
  if (found.named || (!absent && !partial)) return;
  add_config_finding(out, facts, Rule::CF040, std::string(key),
                     {{"key", std::string(key)},
                      {"expected", wanted},
                      {"found", static_cast<uint64_t>(found.numbers.size())}},
                     key);
}

void check_towers(Diagnostics& out, const ModelFacts& facts) {
  const JsonValue& root = facts.config.root();
  const JsonValue* list = root.get("architectures");
  const bool announces = list && !list->elements.empty() && list->elements[0].is_string() &&
                         ends_with(list->elements[0].text, "ForConditionalGeneration");
  const JsonValue* text_only = root.get("language_model_only");
  if (!announces || (text_only && text_only->is_true()) || facts.is_mlx || !facts.complete()) return;
  const auto check = [&](std::string_view key, bool (*belongs)(std::string_view)) {
    const JsonValue* section = root.get(key);
    if (!section || !section->is_object() || section->members.empty()) return;
    const auto tensors = facts.folder.tensors;
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const ConfigTensor& tensor) { return belongs(tensor.name); }))
      return;
    Diagnostic& finding = out.emplace_back();
    finding.rule = Rule::CF042;
    finding.file = facts.file;
    finding.subject = std::string(key);
    finding.pointer = json_pointer({{key}});
    finding.offset = section->begin;
    finding.values = {{"key", std::string(key)}};
  };
  check("vision_config", in_vision_tower);
  check("audio_config", in_audio_tower);
}

}  // namespace

void check_parts(Diagnostics& out, const ModelFacts& facts) {
  check_prediction_layers(out, facts);
  check_towers(out, facts);
}

}  // namespace tftf
