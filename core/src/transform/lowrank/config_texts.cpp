// Configurations of adapters, for ranks that have changed.
#include <set>

#include "adapter/peft_patterns.h"
#include "transform/lowrank/adapter_file.h"

namespace tftf::lowrank {
namespace {

PatternedValues patterned(const std::vector<ConfiguredModule>& modules,
                          double (*of)(const ConfiguredModule&)) {
  std::vector<std::pair<std::string, double>> values;
  for (const ConfiguredModule& module : modules) values.emplace_back(module.path, of(module));
  return patterned_values(values);
}

void set_member(ConfigText& config, const std::vector<std::string_view>& path, const OrderedJson& value) {
  const JsonValue* at = &config.root();
  for (const std::string_view key : path) at = at == nullptr ? nullptr : at->find(key);
  if (at != nullptr && to_ordered_json(*at) == value) return;
  config.set(path, value.dump());
}

}  // namespace

std::string peft_config_text(const std::string& text, const std::vector<ConfiguredModule>& modules,
                             bool retarget, std::vector<ConfigChange>* changes) {
  const bool fresh = text.empty();
  const PatternedValues ranks =
      patterned(modules, [](const ConfiguredModule& m) { return static_cast<double>(m.rank); });
  const PatternedValues alphas = patterned(modules, [](const ConfiguredModule& m) { return m.alpha; });
  std::set<std::string> targets;
  for (const ConfiguredModule& module : modules) targets.insert(module.path);
  const OrderedJson target_list = std::vector<std::string>(targets.begin(), targets.end());
  if (fresh) {
    OrderedJson config;
    config["peft_type"] = "LORA";
    config["task_type"] = nullptr;
    config["base_model_name_or_path"] = nullptr;
    config["inference_mode"] = true;
    config["r"] = config_number(ranks.common);
    config["lora_alpha"] = config_number(alphas.common);
    config["rank_pattern"] = ranks.patterns;
    config["alpha_pattern"] = alphas.patterns;
    config["target_modules"] = target_list;
    config["lora_dropout"] = 0.0;
    config["bias"] = "none";
    config["fan_in_fan_out"] = false;
    config["use_rslora"] = false;
    config["use_dora"] = false;
    return json_text(config);
  }
  ConfigText config("adapter_config.json", text);
  set_member(config, {"r"}, config_number(ranks.common));
  set_member(config, {"lora_alpha"}, config_number(alphas.common));
  const auto set_patterns = [&](std::string_view key, const OrderedJson& patterns) {
    const JsonValue* there = config.root().get(key);
    if (!patterns.empty() || (there != nullptr && !there->members.empty()))
      set_member(config, {key}, patterns);
  };
  set_patterns("rank_pattern", ranks.patterns);
  set_patterns("alpha_pattern", alphas.patterns);
  if (const JsonValue* there = config.root().get("use_rslora"); there != nullptr && there->is_true())
    set_member(config, {"use_rslora"}, false);
  if (retarget) set_member(config, {"target_modules"}, target_list);
  if (changes != nullptr) changes->insert(changes->end(), config.changes().begin(), config.changes().end());
  return config.text();
}

std::string mlx_config_text(const std::string& text, uint64_t rank, std::optional<double> scale,
                            std::vector<ConfigChange>* changes) {
  ConfigText config("adapter_config.json", text.empty() ? "{}" : text);
  const JsonValue* parameters = config.root().get("lora_parameters");
  if (parameters == nullptr || !parameters->is_object()) {
    OrderedJson made;
    made["rank"] = config_number(static_cast<double>(rank));
    made["scale"] = config_number(scale.value_or(1));
    made["dropout"] = 0.0;
    set_member(config, {"lora_parameters"}, made);
  } else {
    set_member(config, {"lora_parameters", "rank"}, config_number(static_cast<double>(rank)));
    if (scale) set_member(config, {"lora_parameters", "scale"}, config_number(*scale));
  }
  if (changes != nullptr) changes->insert(changes->end(), config.changes().begin(), config.changes().end());
  return config.text();
}

}  // namespace tftf::lowrank
