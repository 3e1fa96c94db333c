// Reads what a user wants, and writes what has become of it.
#include "quant/ct/written_scheme.h"

#include <algorithm>
#include <iterator>

#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_copy.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kInferredAnew = 15'000;  // formats of groups, of version_number()

Error scheme_fault(const std::string& file, const std::string& what) {
  return {.code = ErrorCode::kRefusedConfig,
          .message = "The scheme " + quote_name(file) + ": " + what,
          .file = file};
}

const JsonValue* member(const JsonValue* in, std::string_view key) {
  const JsonValue* value = in == nullptr ? nullptr : in->get(key);
  return value != nullptr && value->is_object() ? value : nullptr;
}

struct Section {
  const JsonValue* quantization = nullptr;
  const JsonValue* sparsity = nullptr;
  bool legacy = false;
};

// Where the library looks (spec compressed-tensors 1.1); else the object itself.
Section find_section(const JsonValue& root) {
  Section found;
  const JsonValue* section = member(&root, "quantization_config");
  if (section == nullptr) section = member(member(&root, "text_config"), "quantization_config");
  if (section == nullptr) {
    section = member(&root, "compression_config");
    found.legacy = section != nullptr;
  }
  if (section == nullptr) section = &root;
  found.sparsity = member(section, "sparsity_config");
  if (const JsonValue* nested = member(section, "quantization_config")) section = nested;
  if (found.sparsity == nullptr) found.sparsity = member(section, "sparsity_config");
  if (section->find("config_groups") != nullptr) found.quantization = section;
  return found;
}

// What releases up to 0.14 took when nothing was given.
std::string older_format(const Group& group) {
  const Args& w = *group.weights;
  if (w.is_float && w.bits == 4) return w.group_size == 32 ? "mxfp4-pack-quantized" : "nvfp4-pack-quantized";
  if (!group.inputs)
    return !w.is_float && (w.bits == 4 || w.bits == 8) ? "pack-quantized" : "naive-quantized";
  return w.is_float ? "float-quantized" : "int-quantized";
}

void resolve_formats(Config& config) {
  const std::string& top = config.format;
  const bool names_one = !top.empty() && top != "mixed-precision" && top != "fakequant";
  for (Group& group : config.groups) {
    if (!group.weights || group.format_given) continue;
    if (names_one)
      group.format = top;
    else if (config.version && *config.version < kInferredAnew)
      group.format = older_format(group);
  }
}

Result<void> read_sparsity(const std::string& file, const JsonValue& value, WrittenScheme& scheme) {
  scheme.sparsity = to_ordered_json(value);
  const std::string format(value.string("format").value_or("dense"));
  if (format == "dense") return {};
  if (format == "sparse-bitmask")
    scheme.sparse = Sparse::kBitmask;
  else if (format == "sparse-24-bitmask")
    scheme.sparse = Sparse::kTwoOfFour;
  else
    return scheme_fault(file, "sparsity_config.format is " + quote_name(format) +
                                  ", expected dense, sparse-bitmask or sparse-24-bitmask.");
  const auto strings = [](const JsonValue& list) {
    std::vector<std::string> out;
    for (const JsonValue& one : list.elements) out.push_back(one.text);
    return out;
  };
  if (const JsonValue* targets = value.get("targets"); targets != nullptr && targets->is_array())
    scheme.sparse_targets = strings(*targets);
  if (const JsonValue* ignore = value.get("ignore"); ignore != nullptr && ignore->is_array())
    scheme.sparse_ignore = strings(*ignore);
  return {};
}

Result<void> check_scheme(const std::string& file, const WrittenScheme& scheme) {
  size_t quantising = 0;
  for (const Group& group : scheme.config.groups) {
    if (!group.weights) continue;
    ++quantising;
    if (scheme.sparse == Sparse::kBitmask && group.format != "dense")
      return scheme_fault(file,
                          "sparse-bitmask over quantised weights is not written: how much is stored would be "
                          "known only after quantising. sparse-24-bitmask is.");
  }
  if (quantising == 0 && scheme.sparse == Sparse::kNo)
    return scheme_fault(file, "no group has weights, and nothing is sparse: there is nothing to do.");
  return {};
}

// Whether it is one of the names of a fused layer's parts, and their common name.
constexpr std::pair<std::string_view, std::string_view> kFused[] = {{"q_proj", "qkv"},
                                                                    {"k_proj", "qkv"},
                                                                    {"v_proj", "qkv"},
                                                                    {"gate_proj", "gate_up"},
                                                                    {"up_proj", "gate_up"},
                                                                    {"w1", "w13"},
                                                                    {"w3", "w13"},
                                                                    {"q_a_proj", "qkv_a"},
                                                                    {"kv_a_proj_with_mqa", "qkv_a"}};

}  // namespace

Result<WrittenScheme> read_scheme(const std::string& word, const std::string* text) {
  WrittenScheme scheme;
  if (text == nullptr) {
    scheme.config.version = version_number(kNewestVersion);
    scheme.config.version_text = kNewestVersion;
    std::optional<Group> preset = find_preset(word);
    if (!preset) {
      std::string known;
      for (const std::string_view name : preset_names())
        known += (known.empty() ? "" : ", ") + std::string(name);
      return Error{.code = ErrorCode::kUsage,
                   .message = "--scheme " + quote_name(word) +
                              " is neither a file nor a preset; presets are " + known + ".",
                   .expected = known,
                   .found = word};
    }
    preset->name = "group_0";
    preset->targets = {"Linear"};
    scheme.preset = true;
    scheme.config.groups.push_back(*std::move(preset));
    TFTF_TRY(check_scheme(word, scheme));
    return scheme;
  }
  const JsonDocument document = parse_json(*text, JsonDialect::kPython);
  if (document.error)
    return scheme_fault(word, "it is not valid JSON: " + escape_text(document.error->detail) + ".");
  if (!document.root.is_object()) return scheme_fault(word, "it is no JSON object.");
  const Section section = find_section(document.root);
  if (section.quantization == nullptr && section.sparsity == nullptr)
    return scheme_fault(word, "it has neither quantization_config nor config_groups.");
  if (section.quantization != nullptr) {
    Result<Config> config = parse_config(*section.quantization);
    if (!config) return scheme_fault(word, config.error().message);
    const JsonValue* transforms = section.quantization->get("transform_config");
    if (transforms != nullptr && transforms->is_object() && !transforms->members.empty())
      return scheme_fault(word, "it has a transform_config: weights are not rotated here.");
    scheme.config = *std::move(config);
  }
  if (scheme.config.version_text.empty()) {
    // 0.7 began to write it, and the key that everybody has now.
    scheme.config.version_text = section.legacy ? "0.6.0" : kNewestVersion;
    if (const JsonValue* root_version = member(&document.root, "quantization_config"))
      if (const auto version = root_version->string("version")) scheme.config.version_text = *version;
    scheme.config.version = version_number(scheme.config.version_text);
  }
  resolve_formats(scheme.config);
  if (section.sparsity != nullptr) TFTF_TRY(read_sparsity(word, *section.sparsity, scheme));
  TFTF_TRY(check_scheme(word, scheme));
  return scheme;
}

std::string scheme_section(const WrittenScheme& scheme, const std::vector<std::string>& ignored) {
  Config config = scheme.config;
  std::string format;
  for (Group& group : config.groups) {
    if (!group.weights) continue;
    group.format_given = true;
    format = format.empty() || format == group.format ? group.format : "mixed-precision";
  }
  OrderedJson out;
  if (config.groups.empty()) {
    out["quant_method"] = "compressed-tensors";
    out["sparsity_config"] = scheme.sparsity;
    out["version"] = config.version_text;
    return out.dump(2);
  }
  config.format = format;
  config.status = "compressed";
  config.method = "compressed-tensors";
  for (const std::string& module : ignored)
    if (std::find(config.ignore.begin(), config.ignore.end(), module) == config.ignore.end())
      config.ignore.push_back(module);
  out = config_json(config);
  out["sparsity_config"] = scheme.sparsity;
  out["transform_config"] = OrderedJson::object();
  out["version"] = config.version_text;
  return out.dump(2);
}

bool is_left_plain(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  return last == "lm_head" || last == "output_layer" || last == "gate" || last == "router" ||
         last == "shared_expert_gate";
}

std::string fused_set(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  for (const auto& [part, whole] : kFused)
    if (last == part) return std::string(module.substr(0, module.size() - last.size())) + std::string(whole);
  return "";
}

}  // namespace tftf::ct
