// Configurations of adapters, for ranks that have changed.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "transform/lowrank/adapter_file.h"

namespace tftf::lowrank {
namespace {

OrderedJson config_number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return OrderedJson(static_cast<int64_t>(value));
  return json_float(value);
}

// A regular expression that this path fulfils, and those that end in it.
std::string path_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

// The commonest value, and patterns for modules that have another or would be caught by a pattern of another.
struct PatternedValues {
  double common = 0;
  OrderedJson patterns = OrderedJson::object();
};

template <class Of>
PatternedValues patterned(const std::vector<ConfiguredModule>& modules, Of of) {
  PatternedValues values;
  std::map<double, size_t> counts;
  for (const ConfiguredModule& module : modules) ++counts[of(module)];
  size_t most = 0;
  for (const ConfiguredModule& module : modules) {
    if (counts[of(module)] <= most) continue;
    most = counts[of(module)];
    values.common = of(module);
  }
  std::set<std::string_view> others;
  for (const ConfiguredModule& module : modules)
    if (of(module) != values.common) others.insert(module.path);
  const auto caught = [&](std::string_view path) {
    for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1))
      if (others.count(path.substr(dot + 1)) > 0) return true;
    return false;
  };
  std::vector<const ConfiguredModule*> chosen;
  for (const ConfiguredModule& module : modules)
    if (of(module) != values.common || caught(module.path)) chosen.push_back(&module);
  // The first that matches decides: a path before the one that it ends in.
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const auto* a, const auto* b) { return a->path.size() > b->path.size(); });
  for (const ConfiguredModule* module : chosen)
    values.patterns[path_pattern(module->path)] = config_number(of(*module));
  return values;
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
