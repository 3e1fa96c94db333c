#include "lint/adapter/adapter_rules.h"

#include <cmath>

#include "container/finding_list.h"
#include "lint/adapter/adapter_weights.h"
#include "lint/adapter/family_rules.h"
#include "lint/file_names.h"
#include "lint/side_text.h"

namespace tftf {
namespace {

constexpr std::string_view kConfig = "adapter_config.json";
constexpr std::string_view kAdapterWeights = "adapter_model.safetensors";

void append(Diagnostics& to, FindingList& list) {
  for (Diagnostic& finding : list.take()) to.push_back(std::move(finding));
}

void report_folder(Diagnostics& findings, Rule rule, const TreeFolder& folder) {
  Diagnostic& finding = findings.emplace_back();
  finding.rule = rule;
  finding.file = folder.shown();
}

bool is_mlx(const JsonValue& config) {
  return !config.get("peft_type") && (config.get("fine_tune_type") || config.get("lora_parameters"));
}

void report_config(FindingList& list, std::string detail, std::string pointer,
                   std::optional<uint64_t> offset) {
  Diagnostic* finding = list.add(Rule::LO002);
  finding->pointer = std::move(pointer);
  finding->offset = offset;
  finding->values = {{"detail", std::move(detail)}};
}

// LO002; true when the rules after LO003 can go on: a valid configuration with peft_type LORA.
bool check_config(FindingList& list, const TreeFile& file, const JsonDocument& document) {
  if (auto fault = object_fault(file.text, document)) {
    report_config(list, "not a JSON object: " + fault->detail, "", fault->offset);
    return false;
  }
  const JsonValue& config = document.root;
  const JsonValue* type = config.get("peft_type");
  if (!type || !type->is_string()) {
    if (!type)
      report_config(list, "no peft_type", "", std::nullopt);
    else
      report_config(list, "peft_type is " + type->brief() + ", not a string", "/peft_type", type->begin);
    return false;
  }
  if (type->text != "LORA") return false;
  const JsonValue* rank = config.get("r");
  if (rank && rank->as_integer().value_or(0) > 0) return true;
  if (!rank)
    report_config(list, "r is missing; a positive integer is expected", "", std::nullopt);
  else
    report_config(list, "r is " + rank->brief() + "; a positive integer is expected", "/r", rank->begin);
  return false;
}

void check_alpha(FindingList& list, const JsonValue& config) {
  const JsonValue* alpha = config.get("lora_alpha");
  if (alpha && alpha->is_number()) {
    const double value = json_double(alpha->text);
    if (std::isfinite(value) && value > 0) return;
  }
  Diagnostic* finding = list.add(Rule::LO007);
  finding->subject = "lora_alpha";
  finding->values = {{"what", std::string("lora_alpha")}};
  if (alpha) {
    finding->pointer = "/lora_alpha";
    finding->offset = alpha->begin;
    finding->values.emplace_back("value", alpha->brief());
  } else {
    finding->values.emplace_back("value", DiagnosticValue());
  }
}

void check_base_name(FindingList& list, const JsonValue& config) {
  const JsonValue* name = config.get("base_model_name_or_path");
  if (name && name->is_string() && !name->text.empty()) return;
  Diagnostic* finding = list.add(Rule::LO017);
  if (name) {
    finding->pointer = "/base_model_name_or_path";
    finding->offset = name->begin;
  }
}

// LO034.
void check_parameters(FindingList& list, const JsonValue& config) {
  constexpr std::string_view kKey = "target_parameters";
  const JsonValue* parameters = config.get(kKey);
  if (!parameters) return;
  const size_t count =
      parameters->is_string() ? parameters->text.empty() ? 0 : 1 : parameters->elements.size();
  if (count == 0) return;
  Diagnostic* finding = list.add(Rule::LO034);
  if (!finding) return;
  finding->pointer = json_pointer({{kKey}});
  finding->offset = parameters->begin;
  finding->values = {{"count", static_cast<uint64_t>(count)}};
}

bool names_other_type(const JsonValue& config) {
  const JsonValue* type = config.is_object() ? config.get("peft_type") : nullptr;
  return type && !(type->is_string() && type->text == "LORA");
}

// LO031 where no valid configuration of LoRA leads to the rules about its weights.
void report_if_checkpoint(Diagnostics& findings, const TreeFile* weights) {
  if (!weights || !weights->sound()) return;
  FindingList list(std::string(weights->path), HeaderOptions().max_findings);
  report_checkpoint(list, weights->scan->header);
  append(findings, list);
}

AdapterFacts facts_of(const JsonValue& config) {
  AdapterFacts facts;
  if (const auto type = config.string("peft_type")) facts.peft_type = std::string(*type);
  facts.rank = config.integer("r");
  if (const JsonValue* alpha = config.get("lora_alpha")) facts.alpha = alpha->brief();
  if (const auto base = config.string("base_model_name_or_path")) facts.base_model = std::string(*base);
  if (!is_mlx(config)) return facts;
  facts.peft_type = "MLX";
  if (const JsonValue* parameters = config.get("lora_parameters")) facts.rank = parameters->integer("rank");
  if (const auto base = config.string("model")) facts.base_model = std::string(*base);
  return facts;
}

}  // namespace

bool is_adapter_folder(const Tree& tree, const TreeFolder& folder) {
  return tree.file_in(folder, kConfig) || tree.file_in(folder, kAdapterWeights);
}

AdapterOutcome check_adapter_folder(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                                    const BaseModel* base) {
  AdapterOutcome outcome;
  const TreeFile* config_file = tree.file_in(folder, kConfig);
  const TreeFile* weights = tree.file_in(folder, kAdapterWeights);
  if (weights && weights->sound()) outcome.facts.modules = count_modules(weights->scan->header);
  for (const std::string_view name : {kAdapterWeights, std::string_view("adapters.safetensors")}) {
    const TreeFile* file = tree.file_in(folder, name);
    if (!file || !file->sound()) continue;
    FindingList families(std::string(file->path), HeaderOptions().max_findings);
    // LO001 tells that there is no configuration.
    const bool adapter = check_adapter_family(families, file->scan->header, true);
    if (adapter && file != weights) outcome.values = file;
    append(findings, families);
  }
  if (!config_file) {
    report_folder(findings, Rule::LO001, folder);
    report_if_checkpoint(findings, weights);
    return outcome;
  }

  FindingList config_list(std::string(config_file->path), HeaderOptions().max_findings);
  bool valid = false;
  bool mlx = false;
  JsonDocument document;
  if (config_file->has_text()) {
    document = parse_json(config_file->text, JsonDialect::kPython);
    if (document.root.is_object()) outcome.facts = facts_of(document.root);
    if (weights && weights->sound()) outcome.facts.modules = count_modules(weights->scan->header);
    mlx = document.root.is_object() && is_mlx(document.root);
    valid = !mlx && check_config(config_list, *config_file, document);
  }
  const bool any_weights =
      mlx ? tree.file_in(folder, "adapters.safetensors") || tree.file_in(folder, "adapters.npz")
          : weights || tree.file_in(folder, "adapter_model.bin");
  if (!any_weights) report_folder(findings, Rule::LO003, folder);
  if (document.root.is_object()) check_parameters(config_list, document.root);
  if (!valid && !mlx && !names_other_type(document.root)) report_if_checkpoint(findings, weights);
  if (valid) {
    check_alpha(config_list, document.root);
    check_base_name(config_list, document.root);
    if (weights && weights->sound()) {
      FindingList weight_list(std::string(weights->path), HeaderOptions().max_findings);
      if (check_adapter_weights(weight_list, config_list, weights->scan->header, document.root, base))
        outcome.values = weights;
      append(findings, weight_list);
    }
  }
  append(findings, config_list);
  return outcome;
}

bool check_adapter_file(Diagnostics& findings, const TreeFile& file) {
  const Header& header = file.scan->header;
  FindingList families(std::string(file.path), HeaderOptions().max_findings);
  const bool adapter = check_adapter_family(families, header, false);
  append(findings, families);
  if (!has_lora_factors(header)) return adapter;
  FindingList list(std::string(file.path), HeaderOptions().max_findings);
  check_lora_names(list, find_lora_tensors(header));
  append(findings, list);
  return true;
}

}  // namespace tftf
