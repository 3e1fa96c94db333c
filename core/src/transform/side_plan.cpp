// Which small files go along, and what they say then.
#include "side_plan.h"

#include <algorithm>
#include <set>

#include "module_lists.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kParams = "params.json";
constexpr std::string_view kHfQuant = "hf_quant_config.json";
// They say how the weights are quantised, and nothing else.
constexpr std::string_view kQuantisationFiles[] = {"hf_quant_config.json", "quantize_config.json",
                                                   "quant_config.json"};

void edit(ConfigText& config, bool section_goes, std::optional<DType> dtype,
          const std::string& quantization) {
  for (const bool nested : {false, true}) {
    const auto path = [nested](std::string_view key) {
      return nested ? std::vector<std::string_view>{"text_config", key} : std::vector<std::string_view>{key};
    };
    if (section_goes) {
      for (const char* key : {"quantization_config", "compression_config", "quantization"})
        config.cut(path(key));
    }
    if (dtype) {
      for (const char* key : {"torch_dtype", "dtype"})
        config.replace_string(path(key), dtype_info(*dtype).torch);
    }
  }
  if (!quantization.empty()) config.set({"quantization_config"}, quantization);
}

// The modules of weights that have come into a quantised model as they are.
std::set<std::string> plain_modules(const Stream& stream) {
  constexpr std::string_view kPlainWeight = ".weight";
  std::set<std::string> modules;
  for (const StreamTensor& tensor : stream.tensors) {
    if (tensor.left_alone && tensor.bundle == 0 && tensor.shape.size() == 2 &&
        ends_with(tensor.name, kPlainWeight))
      modules.insert(tensor.name.substr(0, tensor.name.size() - kPlainWeight.size()));
  }
  return modules;
}

// Adds them to a list: what was there stays, what is new follows, sorted.
void add_plain_modules(const Stream& stream, ConfigText& document, std::string_view file) {
  for (const auto& [name, way] : stream.plain_lists) {
    if (name != file) continue;
    const std::vector<std::string_view> path(way.begin(), way.end());
    const JsonValue* list = &document.root();
    for (const std::string_view key : path)
      list = list != nullptr && list->is_object() ? list->find(key) : nullptr;
    OrderedJson entries = OrderedJson::array();
    std::set<std::string> known;
    if (list != nullptr && list->is_array()) {
      for (const JsonValue& entry : list->elements) {
        entries.push_back(to_ordered_json(entry));
        if (entry.is_string()) known.insert(entry.text);
      }
    }
    const size_t before = entries.size();
    for (const std::string& module : plain_modules(stream))
      if (known.insert(module).second) entries.push_back(module);
    if (entries.size() > before) document.set(path, entries.dump(-1, ' ', true));
  }
}

}  // namespace

Result<SidePlan> plan_sides(const Stream& stream, uint64_t left_quantised, const TransformRequest& request) {
  SidePlan plan;
  const bool section_goes = stream.section_goes || (stream.dequantises && left_quantised == 0);
  std::optional<std::string> config_text;
  const bool new_config = stream.rewritten != nullptr || !stream.plain_lists.empty();
  if (const SideFile* file = stream.checkpoint->side_file(kConfig);
      file != nullptr && (section_goes || stream.result_dtype || !stream.quantization_config.empty() ||
                          !stream.config_members.empty() || stream.renamed || new_config)) {
    const bool broken = file->document.error && stream.rewritten == nullptr;
    if (broken && stream.renamed && !section_goes && !stream.result_dtype &&
        stream.quantization_config.empty() && stream.config_members.empty() && !new_config) {
      plan.warnings.push_back(
          "\"config.json\" is not valid JSON, so that no list of modules in it is renamed.");
    } else if (broken) {
      return Error{.code = ErrorCode::kRefusedConfig,
                   .message = "\"config.json\" would have to be changed and is not valid JSON: " +
                              escape_text(file->document.error->detail) + ".",
                   .file = std::string(kConfig)};
    }
    ConfigText config{std::string(kConfig), broken                        ? "{}"
                                            : stream.rewritten != nullptr ? stream.rewritten->text
                                                                          : file->text};
    if (stream.rewritten != nullptr) plan.changes = stream.rewritten->changes;
    if (stream.renamed) rename_module_lists(stream, config, plan.warnings);
    edit(config, section_goes, stream.result_dtype, stream.quantization_config);
    if (!section_goes) add_plain_modules(stream, config, kConfig);
    for (const auto& [path, json] : stream.config_members) config.set({path.begin(), path.end()}, json);
    plan.changes.insert(plan.changes.end(), config.changes().begin(), config.changes().end());
    if (!plan.changes.empty() || stream.rewritten != nullptr) config_text = config.text();
  }
  // Mistral's own configuration says how its weights are quantised, too.
  std::optional<std::string> params_text;
  if (const SideFile* file = stream.checkpoint->side_file(kParams);
      section_goes && file != nullptr && !file->document.error) {
    ConfigText params{std::string(kParams), file->text};
    edit(params, true, std::nullopt, "");
    for (const ConfigChange& change : params.changes()) plan.changes.push_back(change);
    if (!params.changes().empty()) params_text = params.text();
  }
  std::optional<std::string> hf_text;
  if (const SideFile* file = stream.checkpoint->side_file(kHfQuant);
      !section_goes && file != nullptr && !file->document.error) {
    ConfigText hf{std::string(kHfQuant), file->text};
    add_plain_modules(stream, hf, kHfQuant);
    for (const ConfigChange& change : hf.changes()) plan.changes.push_back(change);
    if (!hf.changes().empty()) hf_text = hf.text();
  }
  if (section_goes || !stream.quantization_config.empty()) {
    for (const std::string_view name : kQuantisationFiles) {
      const SideFile* file = stream.checkpoint->side_file(name);
      if (file == nullptr) continue;
      plan.changes.push_back({std::string(name), "", to_ordered_json(file->document.root), nullptr});
    }
  }
  if (request.layout.single_file) return plan;

  for (const FileEntry& file : side_files_left_out(stream.checkpoint->listing.kind, request.folder)) {
    plan.warnings.push_back(
        "File " + quote_name(file.name) + " is not taken along: " +
        (file.unreadable.empty() ? "it is not a regular file" : escape_text(file.unreadable)) + ".");
  }
  for (const FileEntry& file : side_files_to_copy(stream.checkpoint->listing.kind, request.folder)) {
    const bool about_quantisation = std::find(std::begin(kQuantisationFiles), std::end(kQuantisationFiles),
                                              file.name) != std::end(kQuantisationFiles);
    if (std::find(stream.sides_left.begin(), stream.sides_left.end(), file.name) != stream.sides_left.end())
      continue;
    if (std::find(stream.sides_replaced.begin(), stream.sides_replaced.end(), file.name) !=
        stream.sides_replaced.end())
      continue;
    // What they say is told by config.json now, or is no longer so.
    if ((section_goes || !stream.quantization_config.empty()) && about_quantisation) continue;
    if (!file.unreadable.empty()) {
      return Error{.code = ErrorCode::kIoRead,
                   .message = "File " + quote_name(file.name) +
                              " would be copied and cannot be read: " + escape_text(file.unreadable) + ".",
                   .file = file.name};
    }
    if (file.name == kConfig && config_text) {
      plan.files.push_back({.name = file.name, .copied = false, .bytes = *std::move(config_text)});
    } else if (file.name == kParams && params_text) {
      plan.files.push_back({.name = file.name, .copied = false, .bytes = *std::move(params_text)});
    } else if (file.name == kHfQuant && hf_text) {
      plan.files.push_back({.name = file.name, .copied = false, .bytes = *std::move(hf_text)});
    } else {
      plan.files.push_back({.name = file.name, .copied = true});
    }
  }
  for (const auto& [name, text] : stream.made_sides)
    plan.files.push_back({.name = name, .copied = false, .bytes = text});
  for (const auto& [name, from] : stream.more_sides)
    plan.files.push_back({.name = name, .copied = true, .from = from});
  return plan;
}

}  // namespace tftf::transform
