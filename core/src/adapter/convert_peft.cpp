// The result as PEFT stores it: a folder each for the models of a pipeline, with adapter_config.json (spec adapters 13).
#include <algorithm>
#include <map>
#include <set>

#include "adapter/convert_module.h"
#include "adapter/peft_patterns.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf::converting {
namespace {

struct PeftSpelling {
  P part;
  std::string_view suffix;
};
constexpr PeftSpelling kSpellings[] = {
    {P::kDown, ".lora_A.weight"},
    {P::kUp, ".lora_B.weight"},
    {P::kUpBias, ".lora_B.bias"},
    {P::kEmbeddingDown, ".lora_embedding_A"},
    {P::kEmbeddingUp, ".lora_embedding_B"},
    {P::kHadaW1A, ".hada_w1_a"},
    {P::kHadaW1B, ".hada_w1_b"},
    {P::kHadaW2A, ".hada_w2_a"},
    {P::kHadaW2B, ".hada_w2_b"},
    {P::kHadaT1, ".hada_t1"},
    {P::kHadaT2, ".hada_t2"},
    {P::kLokrW1, ".lokr_w1"},
    {P::kLokrW1A, ".lokr_w1_a"},
    {P::kLokrW1B, ".lokr_w1_b"},
    {P::kLokrW2, ".lokr_w2"},
    {P::kLokrW2A, ".lokr_w2_a"},
    {P::kLokrW2B, ".lokr_w2_b"},
    {P::kLokrT2, ".lokr_t2"},
};

std::string_view spelling(P part) {
  for (const PeftSpelling& one : kSpellings)
    if (one.part == part) return one.suffix;
  return "";
}

std::string method_of(const Module& module) {
  if (module.form == "loha") return "LOHA";
  if (module.form == "lokr") return "LOKR";
  if (module.form == "lora" || module.form == "dora") return "LORA";
  return "";
}

std::string peft_obstacle(const Module& module) {
  if (method_of(module).empty() ||
      (module.form == "dora" && !module.has(P::kDown) && !module.has(P::kEmbeddingDown)))
    return "is of the form " + module.form + ", which PEFT does not have or stores otherwise";
  for (const Part& part : module.parts)
    if (part.part != P::kMagnitude && part.part != P::kMid && spelling(part.part).empty())
      return "has a tensor " + part.suffix + ", which PEFT does not have";
  if (module.has(P::kMagnitude) && !magnitude_of_outputs(module))
    return "has a magnitude along its inputs, which PEFT does not have";
  return "";
}

class PeftWriter {
 public:
  PeftWriter(Work& work, AdapterConversion& out) : work_(work), out_(out) {}

  Result<void> run() {
    std::map<Component, std::vector<Module>> components;
    for (Module& module : work_.modules) {
      drop_differences(work_, module);
      if (const std::string why = peft_obstacle(module); !why.empty()) {
        work_.leave(module, why);
        continue;
      }
      TFTF_TRY(contract_mid(work_, module));
      components[module.component].push_back(std::move(module));
    }
    const bool several = components.size() > 1;
    if (several && !work_.options.single_name.empty()) {
      return convert_error(work_, ErrorCode::kRefusedUnsupported,
                           quote_name(work_.checkpoint.listing.given) +
                               " adapts several models of a pipeline, which PEFT keeps in a folder each: the "
                               "output has to be a folder.");
    }
    for (auto& [component, modules] : components) {
      const std::string folder = several ? std::string(component == Component::kNone
                                                           ? "model"
                                                           : component_folder(component, work_.base_family)) +
                                               "/"
                                         : "";
      TFTF_TRY(write(folder, modules));
    }
    if (components.empty()) out_.files.push_back({file_name(), {}});
    return {};
  }

 private:
  std::string file_name() const {
    return work_.options.single_name.empty() ? "adapter_model.safetensors" : work_.options.single_name;
  }

  Result<void> write(const std::string& folder, std::vector<Module>& modules) {
    AdapterConversion::File file{folder + file_name(), {}};
    const std::string method = method_of(modules.front());
    std::vector<std::pair<std::string, double>> ranks, alphas;
    std::set<std::string> targets;
    bool dora = false, biased = false, core = false, both = false, experts = false;
    for (Module& module : modules) {
      if (method_of(module) != method) {
        return convert_error(work_, ErrorCode::kRefusedUnsupported,
                             "Module " + quote_name(module.stored) + " is of the form " + module.form +
                                 " and others are " + method + ": an adapter of PEFT has one method.",
                             module.stored);
      }
      if (module.whole_lokr) module.rank = whole_rank(module);
      const std::string name = "base_model.model." + module.path;
      for (const Part& part : module.parts) {
        if (part.part == P::kMagnitude)
          file.tensors.push_back(named(peft_magnitude(module), name + ".lora_magnitude_vector"));
        else
          file.tensors.push_back(named(part.recipe, name + std::string(spelling(part.part))));
        core = core || part.part == P::kHadaT1 || part.part == P::kLokrT2;
        both = both || part.part == P::kLokrW1A;
        biased = biased || part.part == P::kUpBias;
      }
      dora = dora || module.has(P::kMagnitude);
      experts = experts || module.experts;
      ranks.emplace_back(module.path, static_cast<double>(module.rank));
      alphas.emplace_back(module.path, module.scale * static_cast<double>(module.rank));
      if (!module.experts) targets.insert(module.path);
      for (const TensorRef tensor : module.tensors) work_.map(tensor);
      ++out_.modules;
    }
    const bool saved = carry_wholes(file);
    const PatternedValues r = patterned_values(ranks), alpha = patterned_values(alphas);
    OrderedJson config;
    config["peft_type"] = method;
    config["task_type"] = from_source("task_type");
    config["base_model_name_or_path"] = from_source("base_model_name_or_path");
    config["inference_mode"] = true;
    config["r"] = config_number(r.common);
    config[method == "LORA" ? "lora_alpha" : "alpha"] = config_number(alpha.common);
    config["rank_pattern"] = r.patterns;
    config["alpha_pattern"] = alpha.patterns;
    config["target_modules"] = OrderedJson(std::vector<std::string>(targets.begin(), targets.end()));
    if (experts) config["target_parameters"] = from_source("target_parameters");
    config["modules_to_save"] = saved ? saved_modules() : OrderedJson();
    if (method == "LORA") {
      config["lora_dropout"] = 0.0;
      config["lora_bias"] = biased;
      config["bias"] = saved && !from_source("bias").is_null() ? from_source("bias") : OrderedJson("none");
      config["fan_in_fan_out"] = from_source("fan_in_fan_out") == OrderedJson(true);
      config["use_rslora"] = false;
      config["use_dora"] = dora;
      config["init_lora_weights"] = true;
    } else {
      config["rank_dropout"] = 0.0;
      config["module_dropout"] = 0.0;
      config["init_weights"] = true;
      config["use_effective_conv2d"] = core;
      if (method == "LOKR") {
        config["decompose_both"] = both;
        config["decompose_factor"] = -1;
      }
    }
    if (work_.options.single_name.empty())
      out_.sides.emplace_back(folder + "adapter_config.json", json_text(config));
    else
      out_.metadata.emplace_back("lora_adapter_metadata", config.dump());
    out_.files.push_back(std::move(file));
    return {};
  }

  // Both factors whole: alpha over a rank that is large enough for PEFT to make them so.
  static uint64_t whole_rank(const Module& module) {
    uint64_t rank = 1;
    for (const P part : {P::kLokrW1, P::kLokrW2})
      for (const uint64_t size : module.find(part)->shape) rank = std::max(rank, size);
    return rank;
  }

  // What PEFT has saved whole stays what it is.
  bool carry_wholes(AdapterConversion::File& file) {
    if (!is_peft_family(work_.from)) return false;
    for (const Whole& whole : work_.wholes) {
      file.tensors.push_back(
          named(stored_recipe(work_.checkpoint, whole.tensor), work_.info(whole.tensor).name));
      work_.map(whole.tensor);
    }
    return !work_.wholes.empty();
  }

  // Of modules_to_save the entries that have tensors.
  OrderedJson saved_modules() const {
    const OrderedJson entries = from_source("modules_to_save");
    if (!entries.is_array()) return entries;
    OrderedJson kept = OrderedJson::array();
    for (const OrderedJson& entry : entries) {
      const std::string part = "." + entry.get<std::string>() + ".";
      const bool there = std::any_of(work_.wholes.begin(), work_.wholes.end(), [&](const Whole& whole) {
        return ("." + whole.path + ".").find(part) != std::string::npos;
      });
      if (there) kept.push_back(entry);
    }
    return kept;
  }

  // A member of the input's own configuration, where that is PEFT's too.
  OrderedJson from_source(std::string_view key) const {
    const JsonValue* config = is_peft_family(work_.from) ? adapter_config_of(work_.checkpoint) : nullptr;
    const JsonValue* value = config != nullptr ? config->get(key) : nullptr;
    if (value == nullptr) return nullptr;
    if (value->is_string()) return value->text;
    if (value->kind == JsonKind::kBoolean) return value->boolean;
    if (value->is_array()) {
      OrderedJson list = OrderedJson::array();
      for (const JsonValue& element : value->elements)
        if (element.is_string()) list.push_back(element.text);
      return list;
    }
    return nullptr;
  }

  Work& work_;
  AdapterConversion& out_;
};

}  // namespace

Result<void> write_peft(Work& work, AdapterConversion& out) { return PeftWriter(work, out).run(); }

}  // namespace tftf::converting
