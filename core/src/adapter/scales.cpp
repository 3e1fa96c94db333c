// Alphas from tensors, configurations and metadata, and the factors that they mean.
#include "tftf/adapter/scales.h"

#include <map>

#include "adapter/scalar_value.h"
#include "tftf/adapter/survey.h"
#include "tftf/adapter/targeting.h"
#include "tftf/base/affix.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

constexpr std::string_view kScaleNames[] = {"alpha", "config", "metadata", "implicit", "unknown"};
// Patterns of a configuration are regular expressions, tried on every module.
constexpr uint64_t kMaxPatternTries = 2'000'000;
constexpr std::string_view kPeftPrefixes[] = {"base_model.model.", "base_model."};

using Part = AdapterPart;

bool is_lycoris_form(std::string_view form) { return form == "loha" || form == "lokr"; }

class ScaleFinder {
 public:
  ScaleFinder(const Checkpoint& checkpoint, SmallValues& values, const std::vector<AdapterModule>& modules,
              std::optional<AdapterFamily> family)
      : checkpoint_(checkpoint), values_(values), modules_(modules), family_(family) {
    out_.alphas.resize(modules.size());
    out_.factors.resize(modules.size());
    out_.ranks.resize(modules.size());
  }

  AdapterScales run() {
    const bool tensors = read_tensors();
    const JsonValue* config = adapter_config_of(checkpoint_);
    const bool configured = family_ && (is_peft_family(*family_) || *family_ == AdapterFamily::kMlx);
    if (tensors) {
      out_.kind = AdapterScale::kAlpha;
      use_tensors();
    } else if (config != nullptr && configured) {
      out_.kind = AdapterScale::kConfig;
      if (is_mlx_adapter_config(*config))
        use_mlx(*config);
      else
        use_peft(checkpoint_.side_file("adapter_config.json")->name, *config, "");
    } else if (use_metadata()) {
      out_.kind = AdapterScale::kMetadata;
    } else if (family_ && !configured && *family_ != AdapterFamily::kRawIndexed) {
      out_.kind = AdapterScale::kImplicit;
      for (auto& factor : out_.factors) factor = 1;
    }
    return std::move(out_);
  }

 private:
  std::optional<uint64_t> rank(size_t m) const { return adapter_rank(modules_[m], checkpoint_); }

  bool read_tensors() {
    bool any = false;
    for (size_t m = 0; m < modules_.size(); ++m) {
      const std::optional<TensorRef> tensor = modules_[m].find(Part::kAlpha);
      if (!tensor) continue;
      any = true;
      const TensorInfo& info = checkpoint_.info(*tensor);
      const std::optional<Bytes> bytes = info.bytes() <= 8 ? values_.get(*tensor) : std::nullopt;
      if (bytes) out_.alphas[m] = scalar_value(info.dtype, *bytes);
    }
    return any;
  }

  // A module without a tensor among those that have one: s is 1.
  void use_tensors() {
    for (size_t m = 0; m < modules_.size(); ++m) {
      const AdapterModule& module = modules_[m];
      const bool whole_lokr = module.has(Part::kLokrW1) && module.has(Part::kLokrW2);
      const bool lycoris =
          module.has(Part::kHadaW1A) || module.has(Part::kLokrW1) || module.has(Part::kLokrW1A);
      if (!module.has(Part::kAlpha) || whole_lokr) {
        out_.factors[m] = 1;
      } else if (out_.alphas[m]) {
        const auto r = rank(m);
        const bool default_alpha = lycoris && *out_.alphas[m] == 0;
        out_.factors[m] = !r || *r == 0 || default_alpha ? 1 : *out_.alphas[m] / static_cast<double>(*r);
      }
    }
  }

  void use_mlx(const JsonValue& config) {
    const JsonValue* parameters = config.get("lora_parameters");
    const auto scale = parameters != nullptr ? parameters->number("scale") : std::nullopt;
    if (!scale) out_.kind = AdapterScale::kUnknown;
    for (auto& factor : out_.factors) factor = scale;
  }

  // `prefix`: of the modules that the configuration is for. Returns whether there was any.
  bool use_peft(const std::string& file, const JsonValue& root, std::string_view prefix) {
    Result<PeftConfig> config = read_peft_config(file, root);
    if (!config) {
      out_.error = std::move(config).error();
      return use_plain_alpha(root, prefix);
    }
    const uint64_t patterns = config->alpha_pattern.size() + config->rank_pattern.size();
    if (patterns * modules_.size() > kMaxPatternTries) {
      out_.notes.emplace_back("alpha_pattern has too many keys to be tried here");
      return use_plain_alpha(root, prefix);
    }
    const Result<Targeting> targeting = Targeting::compile(*config);
    if (!targeting) {
      out_.error = targeting.error();
      return use_plain_alpha(root, prefix);
    }
    bool any = false;
    for (size_t m = 0; m < modules_.size(); ++m) {
      if (!modules_[m].name.starts_with(prefix)) continue;
      any = true;
      const std::string_view path = peft_module_path(modules_[m].name.substr(prefix.size()));
      const Result<std::optional<double>> alpha = targeting->alpha(path);
      const Result<std::optional<int64_t>> configured = targeting->rank(path);
      if (!alpha || !configured) {
        out_.error = alpha.ok() ? configured.error() : alpha.error();
        return true;
      }
      out_.alphas[m] = *alpha;
      out_.ranks[m] = configured->value_or(0);
      const uint64_t r =
          out_.ranks[m] > 0 ? static_cast<uint64_t>(out_.ranks[m]) : rank(m).value_or(uint64_t{0});
      if (r == 0) continue;
      if (const Result<double> scale = targeting->scale(path, r); scale.ok()) out_.factors[m] = *scale;
    }
    return any;
  }

  bool use_plain_alpha(const JsonValue& root, std::string_view prefix) {
    bool lycoris = false;
    for (const AdapterModule& module : modules_)
      lycoris = lycoris || is_lycoris_form(adapter_form(module, checkpoint_));
    const std::optional<double> plain = root.number(lycoris ? "alpha" : "lora_alpha");
    for (size_t m = 0; plain && m < modules_.size(); ++m)
      if (modules_[m].name.starts_with(prefix)) out_.alphas[m] = plain;
    return plain.has_value();
  }

  // What diffusers writes: {"transformer.r": 4, "transformer.lora_alpha": 8, …}; without a component its keys are those
  // of adapter_config.json.
  bool use_adapter_metadata(const std::string& text) {
    const JsonDocument json = parse_json(text, JsonDialect::kPython);
    if (json.error || !json.root.is_object()) return false;
    std::map<std::string, JsonValue> configs;
    for (const auto& [name, value] : json.root.members) {
      const size_t dot = name.find('.');
      const std::string prefix = dot == std::string::npos ? "" : name.substr(0, dot + 1);
      JsonValue& config = configs[prefix];
      config.kind = JsonKind::kObject;
      config.members.push_back({name.substr(prefix.size()), value});
      config.key_offsets.push_back(0);
    }
    bool any = false;
    for (const auto& [prefix, config] : configs) {
      if (!config.get("lora_alpha") && !config.get("alpha") && !config.get("r")) continue;
      any = use_peft("lora_adapter_metadata", config, prefix) || any;
    }
    // Components that it says nothing of mean 1.
    for (size_t m = 0; any && m < modules_.size(); ++m)
      if (!out_.factors[m] && !out_.alphas[m] && !out_.error) out_.factors[m] = 1;
    return any;
  }

  bool use_metadata() {
    for (const Shard& shard : checkpoint_.shards)
      for (const auto& [key, value] : shard.header.metadata)
        if (key == "lora_adapter_metadata" && use_adapter_metadata(value)) return true;
    // kohya's and ComfyUI's names without alphas mean 1, whatever the trainer has noted.
    const bool plain = family_ && (is_peft_family(*family_) || *family_ == AdapterFamily::kDiffusersPeft);
    if (!plain) return false;
    for (const char* wanted : {"lora_alpha", "network_alpha", "alpha", "ss_network_alpha"})
      for (const Shard& shard : checkpoint_.shards)
        for (const auto& [key, value] : shard.header.metadata) {
          if (key != wanted || value.empty()) continue;
          if (value.find_first_not_of("0123456789.eE+-") != std::string::npos) continue;
          const double alpha = json_double(value);
          if (!(alpha > 0)) continue;
          for (size_t m = 0; m < modules_.size(); ++m) {
            out_.alphas[m] = alpha;
            const uint64_t r = rank(m).value_or(0);
            out_.factors[m] = r == 0 ? 1 : alpha / static_cast<double>(r);
          }
          return true;
        }
    return false;
  }

  const Checkpoint& checkpoint_;
  SmallValues& values_;
  const std::vector<AdapterModule>& modules_;
  std::optional<AdapterFamily> family_;
  AdapterScales out_;
};

}  // namespace

std::string_view adapter_scale_name(AdapterScale scale) { return kScaleNames[static_cast<size_t>(scale)]; }

const JsonValue* adapter_config_of(const Checkpoint& checkpoint) {
  const SideFile* file = checkpoint.side_file("adapter_config.json");
  return file && !file->document.error && file->document.root.is_object() ? &file->document.root : nullptr;
}

bool is_mlx_adapter_config(const JsonValue& config) {
  return !config.get("peft_type") && (config.get("fine_tune_type") || config.get("lora_parameters"));
}

bool is_peft_family(AdapterFamily family) {
  return family == AdapterFamily::kPeft || family == AdapterFamily::kPeftNamed ||
         family == AdapterFamily::kPeftBare || family == AdapterFamily::kFalKontext;
}

std::string_view peft_module_path(std::string_view module) {
  for (const std::string_view prefix : kPeftPrefixes) {
    if (!starts_with(module, prefix)) continue;
    module.remove_prefix(prefix.size());
    break;
  }
  while (ends_with(module, ".base_layer")) module.remove_suffix(11);
  return module;
}

AdapterScales find_adapter_scales(const Checkpoint& checkpoint, SmallValues& values,
                                  const std::vector<AdapterModule>& modules,
                                  std::optional<AdapterFamily> family) {
  return ScaleFinder(checkpoint, values, modules, family).run();
}

}  // namespace tftf
