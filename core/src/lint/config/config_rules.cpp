#include "tftf/lint/config_rules.h"
#include "tftf/base/affix.h"

#include <array>
#include <utility>

#include "lint/config/family_check.h"
#include "lint/config/model_facts.h"

namespace tftf {
namespace {

using Values = std::vector<std::pair<std::string, DiagnosticValue>>;

Diagnostic finding(Rule rule, std::string file, Values values) {
  Diagnostic out;
  out.rule = rule;
  out.file = std::move(file);
  out.values = std::move(values);
  return out;
}

void point(Diagnostic& to, const JsonValue& config, std::string_view key) {
  if (const JsonValue* value = config.find(key)) {
    to.pointer = json_pointer({{key}});
    to.offset = value->begin;
  }
}

// Why the text is no JSON object, as the end of a sentence; empty when it is one.
std::string object_problem(std::string_view text, const JsonDocument& document) {
  if (!document.error && document.root.is_object()) return {};
  if (!document.error) return "it is a JSON " + std::string(json_kind_name(document.root.kind));
  if (text.empty()) return "it is empty";
  if (starts_with(text, "version https://git-lfs.github.com/spec/")) return "it is a Git LFS pointer";
  const std::string_view body = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (starts_with(body, "<")) return "it is an HTML or XML page";
  switch (document.error->kind) {
    case JsonError::Kind::kDepth:
      return "it is nested too deeply";
    case JsonError::Kind::kLoneSurrogate:
      return "an escape is an unpaired surrogate";
    case JsonError::Kind::kSyntax:
      return document.error->detail;
  }
  return {};
}

// The words of CF029 for what says that the model is quantised; nothing when nothing does.
std::optional<std::string> quantisation_method(const QuantConfig& quant) {
  if (quant.section)
    return std::string(
        quant.section->string("quant_method")
            .value_or(quant.method.empty() ? "no quant_method" : std::string_view(quant.method)));
  if (quant.mlx) return "mlx";
  if (quant.hf_quant) return "hf_quant_config.json";
  if (quant.gptq_file) return "quantize_config.json";
  if (quant.awq_file) return "quant_config.json";
  return std::nullopt;
}

// The place of the section in config.json, wherever it is nested.
void point_at_section(Diagnostic& to, const JsonValue& config, const JsonValue* section) {
  for (const JsonValue::Member& outer : config.members) {
    if (&outer.second != section) {
      for (const JsonValue::Member& inner : outer.second.members) {
        if (&inner.second != section) continue;
        const std::string_view keys[] = {outer.first, inner.first};
        to.pointer = json_pointer(keys);
        to.offset = section->begin;
      }
      continue;
    }
    to.pointer = json_pointer({{outer.first}});
    to.offset = section->begin;
  }
}

void check_dtype(const ConfigInput& input, const JsonValue& config, const std::string& file,
                 Diagnostics& out) {
  const std::string_view key = config.get("dtype") ? "dtype" : "torch_dtype";
  const std::optional<std::string_view> declared = config.string(key);
  if (!declared) return;
  constexpr std::string_view kTorch = "torch.";
  const std::string_view name = starts_with(*declared, kTorch) ? declared->substr(kTorch.size()) : *declared;
  constexpr std::pair<std::string_view, DType> kKnown[] = {
      {"float32", DType::F32}, {"float16", DType::F16},           {"bfloat16", DType::BF16},
      {"float64", DType::F64}, {"float8_e4m3fn", DType::F8_E4M3}, {"float8_e5m2", DType::F8_E5M2}};
  std::optional<DType> wanted;
  for (const auto& [known, dtype] : kKnown)
    if (known == name) wanted = dtype;
  if (!wanted) return;
  // Sums are of stored bytes: they fit.
  std::vector<uint64_t> bytes(all_dtypes().size());
  for (const ConfigTensor& tensor : input.tensors)
    if (is_floating(tensor.dtype)) bytes[static_cast<size_t>(tensor.dtype)] += tensor.bytes;
  size_t most = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > bytes[most]) most = i;
  if (bytes[most] == 0 || bytes[most] == bytes[static_cast<size_t>(*wanted)]) return;
  out.push_back(finding(Rule::CF025, file,
                        {{"key", std::string(key)},
                         {"declared", std::string(*declared)},
                         {"found", std::string(dtype_name(static_cast<DType>(most)))}}));
  point(out.back(), config, key);
}

void check_config_formats(const ConfigInput& input, Diagnostics& out) {
  if (input.is_colibri) return;
  for (const ConfigWeightFile& file : input.files) {
    if (!file.has_metadata) continue;
    bool accepted = false;
    for (std::string_view known : {"pt", "tf", "flax", "mlx"}) accepted = accepted || file.format == known;
    if (accepted) continue;
    out.push_back(
        finding(Rule::CF034, file.path,
                {{"value", file.format ? DiagnosticValue(std::string(*file.format)) : DiagnosticValue()}}));
  }
}

}  // namespace

Diagnostics check_config(const ConfigInput& input, std::optional<TiedTensors>* tied) {
  Diagnostics out;
  if (input.adapter_folder) return out;
  const std::string file = input.folder + "config.json";
  if (!input.unreadable.empty()) {
    out.push_back(finding(Rule::CF001, file, {{"detail", "it cannot be read: " + input.unreadable}}));
    return out;
  }
  if (!input.config_text) {
    if (input.has_model_file && !input.has_model_index)
      out.push_back(finding(Rule::CF002, input.folder.empty() ? "." : input.folder, {}));
    return out;
  }
  Checkpoint alone;  // config.json and nothing beside it
  if (!input.config) {
    SideFile& side = alone.side_files.emplace_back();
    side.name = "config.json";
    side.document = parse_json(*input.config_text, JsonDialect::kPython);
  }
  const JsonDocument& document = input.config ? *input.config : alone.side_files[0].document;
  const JsonValue& config = document.root;
  if (std::string problem = object_problem(*input.config_text, document); !problem.empty()) {
    out.push_back(finding(Rule::CF001, file, {{"detail", std::move(problem)}}));
    if (document.error) out.back().offset = document.error->offset;
    return out;
  }
  if (!input.has_checked_file) return out;

  const QuantConfig quant = input.quant ? *input.quant : read_quant_config(alone);
  const std::optional<std::string> method = quantisation_method(quant);
  if (method) {
    out.push_back(finding(Rule::CF029, file, {{"method", *method}}));
    point_at_section(out.back(), config, quant.section ? quant.section : quant.mlx);
  } else if (!input.is_colibri) {
    check_dtype(input, config, file, out);
  }
  const JsonValue* model_type = config.get("model_type");
  const bool named = model_type && model_type->is_string();
  if (named) check_config_formats(input, out);
  const FamilyChoice choice = named ? find_family(model_type->text) : FamilyChoice();
  if (named) {
    const ModelFacts facts(input, config, model_type->text, choice.family != nullptr, file);
    check_parts(out, facts);
    check_experts(out, facts);
    check_layout(out, facts);
    check_wrappers(out, facts);
    check_embeddings(out, facts, tied);
  }
  if (!choice.family) {
    DiagnosticValue value;
    if (model_type) value = named ? model_type->text : model_type->brief();
    out.push_back(finding(Rule::CF003, file, {{"value", std::move(value)}}));
    point(out.back(), config, "model_type");
    return out;
  }
  const bool quantised = method || input.is_colibri;  // codes have no shape to check
  Diagnostics family = check_family({input, config, model_type->text, choice, quantised, file}, tied);
  for (Diagnostic& one : family) out.push_back(std::move(one));
  return out;
}

Diagnostic tied_head_differs(std::string config, std::string_view head, std::string_view embedding) {
  Diagnostic out = finding(Rule::CF031, std::move(config),
                           {{"tensor", std::string(head)}, {"other", std::string(embedding)}});
  out.subject = std::string(head);
  return out;
}

std::vector<std::string_view> config_families() {
  std::vector<std::string_view> out;
  for (const Family& family : families()) out.insert(out.end(), family.types.begin(), family.types.end());
  return out;
}

}  // namespace tftf
