#include "tftf/adapter/peft_config.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

struct MethodName {
  std::string_view name;
  PeftMethod method;
};
// MiCA, VeLoRA and MonteCLoRA train differently and merge like LoRA (spec tftf 4).
constexpr MethodName kMethods[] = {{"LORA", PeftMethod::kLora},
                                   {"LOHA", PeftMethod::kLoha},
                                   {"LOKR", PeftMethod::kLokr},
                                   {"IA3", PeftMethod::kIa3},
                                   {"VERA", PeftMethod::kVera},
                                   {"OFT", PeftMethod::kOft},
                                   {"BOFT", PeftMethod::kBoft},
                                   {"ADALORA", PeftMethod::kAdaLora},
                                   {"HRA", PeftMethod::kHra},
                                   {"MISS", PeftMethod::kMiss},
                                   {"LN_TUNING", PeftMethod::kLnTuning},
                                   {"TRAINABLE_TOKENS", PeftMethod::kTrainableTokens},
                                   {"MICA", PeftMethod::kLora},
                                   {"VELORA", PeftMethod::kLora},
                                   {"MONTECLORA", PeftMethod::kLora}};

struct Unsupported {
  std::string_view key;
  std::string_view what;
};
// Keys that, when set, change the merge in a way that has no rule here.
constexpr Unsupported kUnsupported[] = {
    {"alora_invocation_tokens",
     "an activated LoRA (aLoRA), which acts only after its invocation tokens and cannot be merged"},
    {"use_qalora", "QALoRA, which pools its inputs and cannot be merged into a dense weight"},
    {"arrow_config", "an Arrow router over several adapters, which cannot be merged"},
    {"kasa_config", "KaSA, which first truncates the base weight by its singular values"},
    {"use_bdlora", "BD-LoRA, whose block-diagonal factors are not specified here"},
    {"layer_replication", "layer replication, which changes the model's layers"},
    {"megatron_config", "a Megatron parallel adapter"}};

constexpr int64_t kMissRank = 64;  // PEFT's, when a configuration names none

constexpr std::string_view kResidualInits[] = {"pissa", "olora", "corda", "lora_ga", "loftq"};

bool is_set(const JsonValue* value) {
  if (!value) return false;
  switch (value->kind) {
    case JsonKind::kNull:
      return false;
    case JsonKind::kBoolean:
      return value->boolean;
    case JsonKind::kNumber:
      return json_double(value->text) != 0;
    case JsonKind::kString:
      return !value->text.empty();
    case JsonKind::kArray:
      return !value->elements.empty();
    case JsonKind::kObject:
      return !value->members.empty();
  }
  return false;
}

class ConfigReader {
 public:
  ConfigReader(std::string_view file, const JsonValue& root) : root_(root) { config_.file = file; }

  Result<PeftConfig> read() {
    config_.present = true;
    if (!root_.is_object()) refuse("", "a JSON object is expected");
    read_method();
    read_numbers();
    read_selectors();
    read_switches();
    read_tokens();
    if (error_) return *std::move(error_);
    return std::move(config_);
  }

 private:
  void refuse(std::string_view key, std::string why, ErrorCode code = ErrorCode::kRefusedConfig) {
    if (error_) return;
    Error error;
    error.code = code;
    error.file = config_.file;
    error.message =
        escape_text(config_.file) + ": " + (key.empty() ? "" : quote_name(key) + ": ") + std::move(why) + ".";
    if (const JsonValue* value = key.empty() ? nullptr : root_.find(key)) error.found = value->brief();
    error_ = std::move(error);
  }

  void read_method() {
    if (const auto* type = root_.get("peft_type")) {
      if (!type->is_string()) return refuse("peft_type", "a string is expected, found " + type->brief());
      std::string upper = type->text;
      std::transform(upper.begin(), upper.end(), upper.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      const auto known = std::find_if(std::begin(kMethods), std::end(kMethods),
                                      [&](const auto& m) { return m.name == upper; });
      if (known == std::end(kMethods))
        return refuse(
            "peft_type",
            quote_name(type->text) +
                " cannot be merged into a base; known are LORA, ADALORA, LOHA, LOKR, IA3, VERA, OFT, "
                "BOFT, HRA, MISS, LN_TUNING and TRAINABLE_TOKENS",
            ErrorCode::kRefusedUnsupported);
      config_.method = known->method;
    }
    for (const auto& [key, what] : kUnsupported)
      if (is_set(root_.find(key)))
        refuse(key, "this is " + std::string(what), ErrorCode::kRefusedUnsupported);
    if (const auto* init = root_.get("init_lora_weights"); init && init->is_string())
      for (std::string_view residual : kResidualInits)
        if (init->text == residual || init->text.starts_with(std::string(residual) + "_niter_"))
          config_.residual_init = init->text;
  }

  std::optional<int64_t> positive_integer(std::string_view key) {
    const auto* value = root_.get(key);
    if (!value) return std::nullopt;
    const auto number = value->as_integer();
    if (!number || *number < 1) {
      refuse(key, "a positive integer is expected, found " + value->brief());
      return std::nullopt;
    }
    return number;
  }

  std::optional<double> finite_number(std::string_view key, const JsonValue* value) {
    if (!value) return std::nullopt;
    const auto number = value->as_double();
    if (!number || !std::isfinite(*number)) {
      refuse(key, "a finite number is expected, found " + value->brief());
      return std::nullopt;
    }
    return number;
  }

  void read_numbers() {
    const bool lycoris = config_.method == PeftMethod::kLoha || config_.method == PeftMethod::kLokr;
    switch (config_.method) {
      case PeftMethod::kOft:  // carries r: 0 when the block size is given
      case PeftMethod::kBoft:
      case PeftMethod::kIa3:
      case PeftMethod::kLnTuning:
      case PeftMethod::kTrainableTokens:
        break;
      case PeftMethod::kAdaLora:
        config_.rank = positive_integer("init_r");
        return read_adalora();
      case PeftMethod::kMiss:
        config_.rank = positive_integer("r");
        if (!config_.rank) config_.rank = kMissRank;
        config_.mini_r = positive_integer("mini_r");
        if (const auto init = root_.string("init_weights"))
          config_.miss = *init == "bat"    ? PeftConfig::Miss::kBat
                         : *init == "mini" ? PeftConfig::Miss::kMini
                                           : PeftConfig::Miss::kPlain;
        break;
      default:
        config_.rank = positive_integer("r");
        break;
    }
    const std::string_view alpha = lycoris ? "alpha" : "lora_alpha";
    if (const auto value = finite_number(alpha, root_.get(alpha))) {
      config_.alpha = *value;
      config_.has_alpha = true;
    }
    read_pattern("rank_pattern", [&](const std::string& key, const JsonValue& value) {
      const auto number = value.as_integer();
      if (!number || *number < 1)
        return refuse("rank_pattern", "the rank of " + quote_name(key) + " is " + value.brief());
      config_.rank_pattern.emplace_back(key, *number);
    });
    read_pattern("alpha_pattern", [&](const std::string& key, const JsonValue& value) {
      if (const auto number = finite_number("alpha_pattern", &value))
        config_.alpha_pattern.emplace_back(key, *number);
    });
    if (const auto value = finite_number("eps", root_.get("eps"))) config_.eps = *value;
    if (const auto value = positive_integer("num_cayley_neumann_terms"))
      config_.cayley_neumann_terms = *value;
    if (const auto* value = root_.get("oft_block_size")) {
      const auto number = value->as_integer();
      if (!number || *number < 0)
        return refuse("oft_block_size", "a non-negative integer is expected, found " + value->brief());
      config_.oft_block_size = *number;
    }
  }

  // Its rank_pattern holds what training has left of each module's rank, entry by entry.
  void read_adalora() {
    if (const auto value = finite_number("lora_alpha", root_.get("lora_alpha"))) {
      config_.alpha = *value;
      config_.has_alpha = true;
    }
    read_pattern("rank_pattern", [&](const std::string& key, const JsonValue& value) {
      const bool flags = value.is_array() &&
                         std::all_of(value.elements.begin(), value.elements.end(),
                                     [](const JsonValue& entry) { return entry.kind == JsonKind::kBoolean; });
      if (!flags)
        return refuse("rank_pattern", "what is left of " + quote_name(key) + " is " + value.brief());
      const auto left = std::count_if(value.elements.begin(), value.elements.end(),
                                      [](const JsonValue& entry) { return entry.boolean; });
      config_.adalora_ranks.emplace_back(key, left);
    });
  }

  template <class Take>
  void read_pattern(std::string_view key, Take take) {
    const auto* value = root_.get(key);
    if (!value) return;
    if (!value->is_object()) return refuse(key, "an object is expected, found " + value->brief());
    for (const auto& [name, entry] : value->members) take(name, entry);
  }

  std::vector<std::string> strings(std::string_view key, const JsonValue& value) {
    std::vector<std::string> out;
    for (const JsonValue& element : value.elements) {
      if (!element.is_string()) {
        refuse(key, "a list of strings is expected, found " + value.brief());
        return out;
      }
      out.push_back(element.text);
    }
    return out;
  }

  ModuleSelector selector(std::string_view key) {
    ModuleSelector out;
    const auto* value = root_.get(key);
    if (!value) return out;
    if (value->is_string()) {
      out.kind = ModuleSelector::Kind::kPattern;
      out.pattern = value->text;
    } else if (value->is_array()) {
      out.kind = ModuleSelector::Kind::kList;
      out.list = strings(key, *value);
    } else {
      refuse(key, "a string or a list of strings is expected, found " + value->brief());
    }
    return out;
  }

  std::vector<std::string> string_list(std::string_view key) {
    const ModuleSelector list = selector(key);
    if (list.kind == ModuleSelector::Kind::kPattern) return {list.pattern};
    return list.list;
  }

  void read_selectors() {
    config_.target_modules = selector("target_modules");
    config_.exclude_modules = selector("exclude_modules");
    if (const auto* value = root_.get("target_parameters")) {
      if (!value->is_array())
        return refuse("target_parameters", "a list is expected, found " + value->brief());
      config_.target_parameters = strings("target_parameters", *value);
    }
    config_.modules_to_save = string_list("modules_to_save");
    config_.layers_pattern = string_list("layers_pattern");
    const ModuleSelector feedforward = selector("feedforward_modules");
    if (feedforward.kind == ModuleSelector::Kind::kPattern) config_.feedforward_pattern = feedforward.pattern;
    config_.feedforward_modules = feedforward.list;
    if (const auto* value = root_.get("layers_to_transform")) {
      std::vector<int64_t> layers;
      const auto add = [&](const JsonValue& number) {
        if (const auto layer = number.as_integer())
          layers.push_back(*layer);
        else
          refuse("layers_to_transform", "integers are expected, found " + value->brief());
      };
      if (value->is_array())
        for (const JsonValue& element : value->elements) add(element);
      else
        add(*value);
      config_.layers_to_transform = std::move(layers);
    }
  }

  void read_switch(std::string_view key, bool& out) {
    const auto* value = root_.get(key);
    if (!value) return;
    if (value->kind != JsonKind::kBoolean)
      return refuse(key, "true or false is expected, found " + value->brief());
    out = value->boolean;
  }

  void read_switches() {
    read_switch("use_rslora", config_.use_rslora);
    read_switch("use_dora", config_.use_dora);
    read_switch("fan_in_fan_out", config_.fan_in_fan_out);
    read_switch("lora_bias", config_.lora_bias);
    read_switch("save_projection", config_.save_projection);
    read_switch("use_effective_conv2d", config_.use_effective_conv2d);
    read_switch("block_share", config_.block_share);
    read_switch("coft", config_.coft);
    read_switch("use_cayley_neumann", config_.use_cayley_neumann);
    read_switch("apply_GS", config_.apply_gs);
    read_switch("ensure_weight_tying", config_.ensure_weight_tying);
    if (const auto bias = root_.string("bias")) config_.bias = *bias;
    if (const auto version = root_.string("peft_version")) config_.peft_version = *version;
    if (const auto task = root_.string("task_type")) config_.task_type = *task;
    if (const auto base = root_.string("base_model_name_or_path")) config_.base_model = *base;
  }

  void read_tokens() {
    const bool alone = config_.method == PeftMethod::kTrainableTokens;
    const std::string_view key = alone ? "token_indices" : "trainable_token_indices";
    const auto* value = root_.get(key);
    if (!value) return;
    const auto rows = [&](const std::string& module, const JsonValue& list) {
      TokenIndices tokens{module, {}};
      for (const JsonValue& element : list.elements) {
        const auto row = element.as_integer();
        if (!row || *row < 0) return refuse(key, "non-negative integers are expected, found " + list.brief());
        tokens.rows.push_back(static_cast<uint64_t>(*row));
      }
      config_.trainable_tokens.push_back(std::move(tokens));
    };
    if (value->is_array()) return rows("", *value);
    if (!value->is_object()) return refuse(key, "a list or an object is expected, found " + value->brief());
    for (const auto& [module, list] : value->members) rows(module, list);
  }

  const JsonValue& root_;
  PeftConfig config_;
  std::optional<Error> error_;
};

}  // namespace

PeftConfig default_peft_config() { return {}; }

Result<PeftConfig> read_peft_config(std::string_view file, const JsonValue& root) {
  return ConfigReader(file, root).read();
}

std::string_view peft_method_name(PeftMethod method) {
  for (const MethodName& known : kMethods)
    if (known.method == method) return known.name;
  return "";
}

}  // namespace tftf
