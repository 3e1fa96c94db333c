// Fits an adapter: reads it, finds the way to the base's names, forms experts, writes names and configuration.
#include "tftf/adapter/fit.h"

#include <algorithm>

#include "adapter/fit_modules.h"
#include "adapter/peft_patterns.h"
#include "adapter/stack_choice.h"
#include "tftf/adapter/scales.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace fitting {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
// The first version that reads pairs of parameters as they are written here.
constexpr std::string_view kReadsSo = "0.19.1";

// The value that most have, of equals the smallest.
template <class Value>
Value commonest(const std::vector<Value>& values) {
  std::map<Value, size_t> counts;
  for (const Value& value : values) ++counts[value];
  const auto best = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == counts.end() ? Value{} : best->first;
}

std::string key_of(const FittedPair& pair) {
  return pair.parameter.empty() ? pair.path : pair.path + "." + pair.parameter;
}

std::string named_after(const FittedPair& pair, std::string_view factor) {
  std::string name = std::string(kPrefix) + pair.path;
  for (uint32_t i = 0; i < pair.nesting; ++i) name += ".base_layer";
  return name + "." + std::string(factor) + ".weight";
}

// Members of the configuration, new ones where they follow from what is written.
class ConfigWriter {
 public:
  ConfigWriter(const Input& input, const std::vector<FittedPair>& pairs) {
    std::vector<uint64_t> ranks;
    std::vector<double> alphas;
    bool flat = false;
    for (const FittedPair& pair : pairs) {
      ranks.push_back(pair.rank);
      alphas.push_back(pair.alpha);
      flat = flat || !pair.parameter.empty();
    }
    const uint64_t rank = commonest(ranks);
    const double alpha = commonest(alphas);
    OrderedJson modules = OrderedJson::array(), parameters = OrderedJson::array();
    OrderedJson rank_pattern = OrderedJson::object(), alpha_pattern = OrderedJson::object();
    for (const FittedPair& pair : pairs) {
      const std::string key = key_of(pair);
      (pair.parameter.empty() ? modules : parameters).push_back(key);
      if (pair.rank != rank) rank_pattern[path_pattern(key)] = json_integer(pair.rank);
      if (pair.alpha != alpha) alpha_pattern[path_pattern(key)] = config_number(pair.alpha);
    }
    set("r", json_integer(rank));
    set("lora_alpha", config_number(alpha));
    set("use_rslora", false);
    set("rank_pattern", std::move(rank_pattern));
    set("alpha_pattern", std::move(alpha_pattern));
    set("target_modules", modules.empty() ? OrderedJson() : std::move(modules));
    set("target_parameters", parameters.empty() ? OrderedJson() : std::move(parameters));
    for (const char* key : {"exclude_modules", "layers_to_transform", "layers_pattern"})
      if (adapter_config_of(input.adapter)->get(key) != nullptr) set(key, OrderedJson());
    const bool made = flat && std::any_of(input.units.begin(), input.units.end(),
                                          [](const Unit& unit) { return !unit.flat; });
    if (made && !merging::reads_stacks_straight(input.config.peft_version))
      set("peft_version", std::string(kReadsSo));
  }

  std::string text(const Input& input) {
    const SideFile* file = input.adapter.side_file("adapter_config.json");
    std::string text = "{";
    const auto add = [&text](const std::string& key, const std::string& value) {
      text += (text.size() > 1 ? ",\n  " : "\n  ") + json_ascii_string(key) + ": " + value;
    };
    const auto dumped = [](const OrderedJson& value) { return value.dump(-1, ' ', true); };
    for (const JsonValue::Member& member : file->document.root.members) {
      const auto ours = std::find_if(members_.begin(), members_.end(),
                                     [&](const auto& one) { return one.first == member.first; });
      if (ours == members_.end()) {
        // Kept as it was written.
        const JsonValue& value = member.second;
        add(member.first, file->text.substr(to_size(value.begin), to_size(value.end - value.begin)));
      } else {
        add(member.first, dumped(ours->second));
        members_.erase(ours);
      }
    }
    for (const auto& [key, value] : members_) add(key, dumped(value));
    return text + "\n}\n";
  }

 private:
  void set(const char* key, OrderedJson value) { members_.emplace_back(key, std::move(value)); }
  std::vector<std::pair<std::string, OrderedJson>> members_;
};

}  // namespace

std::string fitted_config(const Input& input, const std::vector<FittedPair>& pairs) {
  return ConfigWriter(input, pairs).text(input);
}

}  // namespace fitting

Result<std::optional<AdapterConversion>> fit_adapter(const Checkpoint& adapter, ValueScans& scans,
                                                     const FitOptions& options) {
  using namespace fitting;
  Input input{.adapter = adapter, .scans = scans, .options = options};
  TFTF_TRY(read_units(input));
  std::optional<ModelEntry> entry;
  const JsonValue* config = options.base == nullptr ? nullptr : options.base->config();
  if (options.base == nullptr || !options.model_type.empty()) {
    Result<ModelEntry> found = find_model_entry(config, options.model_type);
    if (!found) return std::move(found).error();
    entry = *found;
  } else {
    entry = known_model_entry(config);
  }
  std::optional<FitBase> base;
  AdapterConversion made;
  if (options.base != nullptr) {
    base.emplace(*options.base, entry);
    Result<std::string> way = move_names(input, *base);
    if (!way) return std::move(way).error();
    if (!way->empty()) made.notes.push_back("The adapter's names were moved " + *way + ".");
  }
  auto formed = form_experts(input, base ? &*base : nullptr, entry);
  if (!formed) return std::move(formed).error();
  if (!*formed) return std::optional<AdapterConversion>();
  std::vector<FittedPair>& pairs = **formed;
  const std::string text = fitted_config(input, pairs);
  made.from = AdapterFamily::kPeft;
  made.to = AdapterTarget::kPeft;
  made.mapped = adapter.order.size();
  made.modules = pairs.size();
  AdapterConversion::File file;
  file.name = options.single_name.empty() ? "adapter_model.safetensors" : options.single_name;
  for (FittedPair& pair : pairs) {
    pair.a.name = named_after(pair, "lora_A");
    pair.b.name = named_after(pair, "lora_B");
    file.tensors.push_back(std::move(pair.a));
    file.tensors.push_back(std::move(pair.b));
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const AdapterRecipe& a, const AdapterRecipe& b) { return a.name < b.name; });
  made.files.push_back(std::move(file));
  made.sides.emplace_back("adapter_config.json", text);
  return std::optional(std::move(made));
}

}  // namespace tftf
