// Which small files go along, and what they say then.
#include "side_plan.h"

#include <algorithm>

#include "module_lists.h"
#include "tftf/base/escape.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kParams = "params.json";
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

}  // namespace

Result<SidePlan> plan_sides(const Stream& stream, uint64_t left_quantised, const TransformRequest& request) {
  SidePlan plan;
  const bool section_goes = stream.section_goes || (stream.dequantises && left_quantised == 0);
  std::optional<std::string> config_text;
  if (const SideFile* file = stream.checkpoint->side_file(kConfig);
      file != nullptr && (section_goes || stream.result_dtype || !stream.quantization_config.empty() ||
                          !stream.config_members.empty() || stream.renamed)) {
    if (file->document.error && stream.renamed && !section_goes && !stream.result_dtype &&
        stream.quantization_config.empty() && stream.config_members.empty()) {
      plan.warnings.push_back(
          "\"config.json\" is not valid JSON, so that no list of modules in it is renamed.");
    } else if (file->document.error) {
      return Error{.code = ErrorCode::kRefusedConfig,
                   .message = "\"config.json\" would have to be changed and is not valid JSON: " +
                              escape_text(file->document.error->detail) + ".",
                   .file = std::string(kConfig)};
    }
    ConfigText config{std::string(kConfig), file->document.error ? "{}" : file->text};
    if (stream.renamed) rename_module_lists(stream, config, plan.warnings);
    edit(config, section_goes, stream.result_dtype, stream.quantization_config);
    for (const auto& [path, json] : stream.config_members) config.set({path.begin(), path.end()}, json);
    plan.changes = config.changes();
    if (!plan.changes.empty()) config_text = config.text();
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
    } else {
      plan.files.push_back({.name = file.name, .copied = true});
    }
  }
  return plan;
}

}  // namespace tftf::transform
