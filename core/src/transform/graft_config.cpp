// Compares, reads and prepares changes of configurations for a graft.
#include "graft_config.h"

#include <algorithm>

#include "quantised_tensors.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kText = "text_config";
constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kModelOptFile = "hf_quant_config.json";

// What decides how codes are read, beside the method; others (activations, calibration) do not.
constexpr std::string_view kDeciding[] = {"format",       "weight_block_size",   "bits",
                                          "w_bit",        "group_size",          "q_group_size",
                                          "sym",          "zero_point",          "checkpoint_format",
                                          "version",      "config_groups",       "load_in_4bit",
                                          "load_in_8bit", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant",
                                          "quant_algo"};
// Of those, where one that is absent means that nothing is said.
constexpr std::string_view kAlways[] = {"format", "weight_block_size"};

constexpr std::string_view kMtpCounts[] = {"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                           "num_mtp_modules", "mtp_num_layers"};

// By method: the member that lists what is left alone.
struct ListName {
  std::string_view method;
  std::string_view list;
};
constexpr ListName kListNames[] = {
    {"compressed-tensors", "ignore"},          {"fp8", "modules_to_not_convert"},
    {"awq", "modules_to_not_convert"},         {"fbgemm_fp8", "modules_to_not_convert"},
    {"mxfp4", "modules_to_not_convert"},       {"bitnet", "modules_to_not_convert"},
    {"quanto", "modules_to_not_convert"},      {"torchao", "modules_to_not_convert"},
    {"bitsandbytes", "llm_int8_skip_modules"}, {"modelopt", "exclude_modules"}};
// It looks at the tensors: a module without scales is not quantised.
constexpr std::string_view kNeedsNoList = "mlx";

const JsonValue* object_in(const JsonValue* value, std::string_view key) {
  const JsonValue* member = value == nullptr ? nullptr : value->get(key);
  return member != nullptr && member->is_object() ? member : nullptr;
}

std::string value_of(const JsonValue* value) {
  return value == nullptr ? "" : to_ordered_json(*value).dump(-1, ' ', true);
}

// Where the section stands that says how the weights are quantised; empty: in no config.json.
std::vector<std::string> section_place(const JsonValue* config) {
  if (object_in(config, "quantization_config") != nullptr) return {"quantization_config"};
  if (object_in(object_in(config, kText), "quantization_config") != nullptr)
    return {std::string(kText), "quantization_config"};
  const JsonValue* old = object_in(config, "compression_config");
  if (old == nullptr) return {};
  if (object_in(old, "quantization_config") != nullptr) return {"compression_config", "quantization_config"};
  return {"compression_config"};
}

// A layer that predicts further tokens: by name, or behind the layers that the configuration counts.
bool is_mtp(std::string_view name, std::optional<int64_t> layers) {
  if (starts_with(name, "mtp.") || contains(name, ".mtp.")) return true;
  // Towers of other modalities have layers of their own.
  for (const std::string_view tower : {"vision", "visual", "audio", "image", "speech"})
    if (contains(name.substr(0, name.find("layers.")), tower)) return false;
  constexpr std::string_view kLayers = "layers.";
  for (size_t at = name.find(kLayers); at != std::string_view::npos; at = name.find(kLayers, at + 1)) {
    if (at != 0 && name[at - 1] != '.') continue;
    const std::string_view rest = name.substr(at + kLayers.size());
    const std::string_view digits = rest.substr(0, rest.find('.'));
    const auto number = json_unsigned(digits);
    if (layers && *layers >= 0 && number && *number >= static_cast<uint64_t>(*layers)) return true;
  }
  return false;
}

}  // namespace

std::string quantisation_difference(const QuantConfig& ours, const QuantConfig& theirs) {
  if (ours.method != theirs.method) {
    if (theirs.method.empty()) return "the configuration of the source names no method";
    return "its method is " + quote_name(theirs.method) +
           (ours.method.empty() ? ", and the model is not quantised"
                                : ", that of the model is " + quote_name(ours.method));
  }
  if (ours.method.empty()) return "no configuration says how its codes are read";
  for (const std::string_view key : kDeciding) {
    const std::string our_value = value_of(ours.get(key)), their_value = value_of(theirs.get(key));
    const bool always = std::find(std::begin(kAlways), std::end(kAlways), key) != std::end(kAlways);
    if (our_value == their_value || (!always && (our_value.empty() || their_value.empty()))) continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "absent" : escape_text(value); };
    return "its " + std::string(key) + " is " + shown(their_value) + ", that of the model is " +
           shown(our_value);
  }
  return "";
}

bool is_quantised(const Stream& stream) {
  if (!stream.quantization_config.empty()) return true;
  if (stream.open->config.method.empty()) return false;
  if (!stream.dequantises) return true;
  const QuantisedTensors quantised(stream);
  return std::any_of(stream.tensors.begin(), stream.tensors.end(),
                     [&](const StreamTensor& tensor) { return quantised.is_codes(tensor); });
}

Result<void> find_plain_lists(Stream& stream, const StreamTensor& tensor) {
  stream.plain_lists.clear();
  JsonDocument made;
  std::string method = stream.open->config.method;
  std::vector<std::string> place = section_place(stream.config());
  if (!stream.quantization_config.empty()) {  // of an operation before this one
    made = parse_json(stream.quantization_config, JsonDialect::kPython);
    method = std::string(made.root.string("quant_method").value_or(method));
    place = {"quantization_config"};
  }
  if (method == kNeedsNoList) return {};
  const auto* known = std::find_if(std::begin(kListNames), std::end(kListNames),
                                   [&](const ListName& one) { return one.method == method; });
  const SideFile* beside = method == "modelopt" ? stream.home->side_file(kModelOptFile) : nullptr;
  if (known == std::end(kListNames) || (place.empty() && beside == nullptr)) {
    return Error{
        .code = ErrorCode::kRefusedUnsupported,
        .message = "Tensor " + stream.described(tensor) +
                   " is not quantised and the model is: its configuration (" + escape_text(method) +
                   ") has no list of modules that are left alone, so a reader would take the tensor for "
                   "quantised. Dequantise the model first, or take the tensor from a source quantised alike.",
        .file = stream.file_of(tensor.source),
        .tensor = tensor.name,
        .expected = "a list of modules that are not quantised",
        .found = method};
  }
  if (!place.empty()) {
    const JsonValue* section = made.root.is_object() ? &made.root : stream.config();
    for (const std::string& key : place)
      if (section != nullptr && section != &made.root) section = object_in(section, key);
    // Newer files of ModelOpt call the list as compressed-tensors does.
    const bool ignore = method == "modelopt" && section != nullptr && section->get("ignore") != nullptr &&
                        section->get(known->list) == nullptr;
    place.emplace_back(ignore ? "ignore" : known->list);
    stream.plain_lists.emplace_back(kConfigFile, place);
  }
  if (beside != nullptr && object_in(&beside->document.root, "quantization") != nullptr)
    stream.plain_lists.emplace_back(kModelOptFile,
                                    std::vector<std::string>{"quantization", std::string(known->list)});
  return {};
}

void carry_mtp_counts(Stream& stream, const Stream& source, const std::vector<std::string>& names) {
  const JsonValue* from = source.config();
  const JsonValue* config = stream.config();
  if (from == nullptr || config == nullptr) return;
  const JsonValue* from_text = object_in(from, kText);
  std::optional<int64_t> layers = from->integer("num_hidden_layers");
  if (!layers && from_text != nullptr) layers = from_text->integer("num_hidden_layers");
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return is_mtp(name, layers); }))
    return;
  for (const bool nested : {false, true}) {
    const JsonValue* theirs = nested ? from_text : from;
    const JsonValue* ours = nested ? object_in(config, kText) : config;
    if (theirs == nullptr || ours == nullptr) continue;
    for (const std::string_view key : kMtpCounts) {
      const JsonValue* value = theirs->get(key);
      const JsonValue* own = ours->get(key);
      const bool none = own == nullptr || own->as_integer() == 0;
      if (value == nullptr || !none || value->as_integer() == 0) continue;
      std::vector<std::string> path{std::string(key)};
      if (nested) path.insert(path.begin(), std::string(kText));
      stream.config_members.emplace_back(std::move(path), value_of(value));
    }
  }
}

Result<void> carry_processor_files(Stream& stream, const OtherModel& source) {
  constexpr std::string_view kFiles[] = {"preprocessor_config.json", "processor_config.json",
                                         "video_preprocessor_config.json", "chat_template.json",
                                         "chat_template.jinja"};
  const auto find = [](const std::vector<FileEntry>& folder, std::string_view name) {
    const auto named = [&](const FileEntry& file) { return file.name == name; };
    const auto found = std::find_if(folder.begin(), folder.end(), named);
    return found == folder.end() ? nullptr : &*found;
  };
  for (const std::string_view name : kFiles) {
    // What the model has and cannot be read is refused where its own files are copied.
    const FileEntry* own = find(stream.request->folder, name);
    const FileEntry* file = find(source.folder, name);
    if (file == nullptr || (own != nullptr && own->regular)) continue;
    const std::string path = source.place + std::string(name);
    if (!file->unreadable.empty() || !file->regular) {
      const std::string why = file->unreadable.empty() ? "it is not a regular file" : file->unreadable;
      return Error{.code = ErrorCode::kIoRead,
                   .message = "File " + quote_name(path) +
                              " would be taken along and cannot be read: " + escape_text(why) + ".",
                   .file = path};
    }
    const auto same = [&](const auto& side) { return side.first == name; };
    if (std::any_of(stream.more_sides.begin(), stream.more_sides.end(), same)) continue;
    stream.more_sides.emplace_back(name, path);
  }
  return {};
}

bool ties_head(const JsonValue* config) {
  constexpr std::string_view kTie = "tie_word_embeddings";
  for (const JsonValue* section : {config, object_in(config, kText)}) {
    const JsonValue* tie = section == nullptr ? nullptr : section->get(kTie);
    if (tie != nullptr && tie->is_true()) return true;
  }
  return false;
}

void untie_head(Stream& stream) {
  constexpr std::string_view kTie = "tie_word_embeddings";
  const JsonValue* config = stream.config();
  const JsonValue* text = object_in(config, kText);
  if (text != nullptr && text->get(kTie) != nullptr)
    stream.config_members.push_back({{std::string(kText), std::string(kTie)}, "false"});
  if (config != nullptr && config->get(kTie) != nullptr)
    stream.config_members.push_back({{std::string(kTie)}, "false"});
}

bool is_head(std::string_view name) { return name == "lm_head.weight" || ends_with(name, ".lm_head.weight"); }

}  // namespace tftf::transform
