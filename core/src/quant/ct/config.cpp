// Reads the configuration of compressed-tensors by the rules of its own parser.
#include "quant/ct/config.h"

#include <algorithm>
#include <iterator>

#include "tftf/base/escape.h"
#include "tftf/base/json_copy.h"

namespace tftf::ct {
namespace {

constexpr std::string_view kStrategies[] = {"tensor", "channel",      "group",    "block",
                                            "token",  "tensor_group", "attn_head"};
constexpr std::string_view kFormats[] = {"dense",
                                         "int-quantized",
                                         "pack-quantized",
                                         "sparse-bitmask",
                                         "marlin-24",
                                         "float-quantized",
                                         "naive-quantized",
                                         "sparse-24-bitmask",
                                         "nvfp4-pack-quantized",
                                         "mixed-precision",
                                         "mxfp4-pack-quantized",
                                         "mxfp8-quantized"};
constexpr std::string_view kStatuses[] = {"initialized", "calibration", "frozen", "compressed",
                                          "decompressed"};
constexpr std::string_view kArgs[] = {
    "num_bits", "type",     "symmetric",   "group_size", "strategy", "block_structure",
    "dynamic",  "actorder", "scale_dtype", "zp_dtype",   "observer", "observer_kwargs"};
constexpr std::string_view kSchemeKeys[] = {"targets", "weights", "input_activations", "output_activations",
                                            "format"};

template <size_t N>
bool is_one_of(std::string_view text, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

std::string lower_text(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Error config_fault(std::string what) {
  return {.code = ErrorCode::kRefusedConfig, .message = std::move(what)};
}

// An integer, also as "8" or 8.0.
std::optional<int64_t> coerced_integer(const JsonValue& value) {
  if (const auto integer = value.as_integer()) return integer;
  if (value.is_number()) {
    const auto number = value.as_double();
    if (!number || !(*number >= -1e9 && *number <= 1e9) ||
        *number != static_cast<double>(static_cast<int64_t>(*number)))
      return std::nullopt;
    return static_cast<int64_t>(*number);
  }
  if (!value.is_string() || value.text.empty() || value.text.size() > 9) return std::nullopt;
  int64_t out = 0;
  const bool negative = value.text[0] == '-';
  if (negative && value.text.size() == 1) return std::nullopt;
  for (const char c : std::string_view(value.text).substr(negative ? 1 : 0)) {
    if (c < '0' || c > '9') return std::nullopt;
    out = out * 10 + (c - '0');
  }
  return negative ? -out : out;
}

std::optional<bool> coerced_bool(const JsonValue& value) {
  if (value.kind == JsonKind::kBoolean) return value.boolean;
  const std::string text = value.is_string() || value.is_number() ? lower_text(value.text) : "";
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

std::optional<std::pair<uint64_t, uint64_t>> block_structure(const JsonValue& value) {
  int64_t sides[2] = {};
  if (value.is_string()) {
    const std::string text = lower_text(value.text);
    const size_t x = text.find('x');
    if (x == std::string::npos) return std::nullopt;
    for (const int i : {0, 1}) {
      JsonValue side;
      side.kind = JsonKind::kString;
      side.text = i == 0 ? text.substr(0, x) : text.substr(x + 1);
      sides[i] = coerced_integer(side).value_or(0);
    }
  } else {
    if (!value.is_array() || value.elements.size() != 2) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) sides[i] = value.elements[i].as_integer().value_or(0);
  }
  if (sides[0] < 1 || sides[1] < 1) return std::nullopt;
  return std::pair(static_cast<uint64_t>(sides[0]), static_cast<uint64_t>(sides[1]));
}

Result<void> parse_dynamic(const JsonValue& value, Args& args, bool& local) {
  if (value.is_string() && lower_text(value.text) == "local") {
    args.dynamic = args.local = local = true;
    return {};
  }
  const auto flag = coerced_bool(value);
  if (!flag)
    return config_fault("has \"dynamic\": " + value.brief() + ", which is neither true, false nor \"local\"");
  args.dynamic = *flag;
  return {};
}

Result<void> parse_actorder(const JsonValue& value, Args& args) {
  if (value.kind == JsonKind::kBoolean) {
    args.actorder = value.boolean ? ActOrder::kGroup : ActOrder::kNone;
    args.actorder_word = value.boolean ? "group" : "";
    return {};
  }
  const std::string text = value.is_string() ? lower_text(value.text) : "";
  if (text == "group" || text == "dynamic")
    args.actorder = ActOrder::kGroup;
  else if (text == "weight" || text == "static")
    args.actorder = ActOrder::kWeight;
  else
    return config_fault("has \"actorder\": " + value.brief() + ", which is none that is known");
  args.actorder_word = text;
  return {};
}

// What follows the fields, in the parser's order.
Result<void> check_args(const Args& a, bool local, bool block) {
  const std::string strategy(strategy_name(a.strategy));
  if (a.strategy == Strategy::kToken && !a.dynamic)
    return config_fault("has the strategy token, which has to be dynamic");
  if (a.grouped() && a.group_size <= 0)
    return config_fault("has the strategy " + strategy + ", which needs a group_size above 0");
  if (a.group_size > 0 && !a.grouped())
    return config_fault("has a group_size, which does not go with the strategy " + strategy);
  if ((a.strategy == Strategy::kBlock) != block)
    return config_fault(block ? "has a block_structure, which does not go with the strategy " + strategy
                              : "has the strategy block and no block_structure");
  if (a.actorder == ActOrder::kGroup && !a.grouped())
    return config_fault("has actorder group, which does not go with the strategy " + strategy);
  const bool may_change = a.strategy == Strategy::kToken || a.strategy == Strategy::kTensor || a.grouped();
  if (a.dynamic && !may_change)
    return config_fault("is dynamic, which does not go with the strategy " + strategy);
  if (local && a.strategy != Strategy::kTensorGroup)
    return config_fault("is dynamic \"local\", which goes with the strategy tensor_group only");
  if (a.is_float && a.bits != 4 && a.bits != 8)
    return config_fault("is float with " + std::to_string(a.bits) + " bits: only 4 and 8 are known");
  return {};
}

Result<void> parse_dtype(const JsonValue& value, std::string_view key, std::optional<DType>& out) {
  std::string_view text = value.is_string() ? std::string_view(value.text) : "";
  if (text.substr(0, 6) == "torch.") text.remove_prefix(6);
  out = find_torch_dtype(text);
  if (out) return {};
  return config_fault("has \"" + std::string(key) + "\": " + value.brief() + ", which is no dtype of torch");
}

Result<void> parse_optional_args(const JsonValue& scheme, std::string_view key, const std::string& place,
                                 std::optional<Args>& out) {
  const JsonValue* value = scheme.get(key);
  if (value == nullptr) return {};
  Result<Args> args = parse_args(*value);
  if (!args) return config_fault(place + "." + std::string(key) + " " + args.error().message + ".");
  out = *std::move(args);
  return {};
}

Result<void> parse_strings(const JsonValue& value, const std::string& place, std::vector<std::string>& out) {
  const bool strings = value.is_array() && std::all_of(value.elements.begin(), value.elements.end(),
                                                       [](const JsonValue& one) { return one.is_string(); });
  if (!strings) return config_fault(place + " is " + value.brief() + ", not a list of strings.");
  for (const JsonValue& one : value.elements) out.push_back(one.text);
  return {};
}

Result<Group> parse_group(const std::string& name, const JsonValue& value) {
  const std::string place = "config_groups." + quote_name(name);
  if (value.is_array()) {
    std::optional<Group> preset = find_preset(name);
    if (!preset) return config_fault(place + " is a list, and there is no preset of that name.");
    preset->name = name;
    TFTF_TRY(parse_strings(value, place, preset->targets));
    return *std::move(preset);
  }
  if (!value.is_object()) return config_fault(place + " is " + value.brief() + ", not a scheme.");
  for (const auto& [key, member] : value.members)
    if (!is_one_of(key, kSchemeKeys))
      return config_fault(place + " has the unknown key " + quote_name(key) + ".");
  Group group;
  group.name = name;
  const JsonValue* targets = value.find("targets");
  if (targets == nullptr) return config_fault(place + " has no targets.");
  TFTF_TRY(parse_strings(*targets, place + ".targets", group.targets));
  TFTF_TRY(parse_optional_args(value, "weights", place, group.weights));
  TFTF_TRY(parse_optional_args(value, "input_activations", place, group.inputs));
  TFTF_TRY(parse_optional_args(value, "output_activations", place, group.outputs));
  if (group.inputs &&
      (group.inputs->strategy == Strategy::kBlock || group.inputs->strategy == Strategy::kChannel))
    return config_fault(place + ".input_activations has the strategy " +
                        std::string(strategy_name(group.inputs->strategy)) + ", which activations have not.");
  for (const auto* activations : {&group.inputs, &group.outputs})
    if (*activations && (*activations)->actorder != ActOrder::kNone)
      return config_fault(place + " has actorder for activations.");
  group.format = inferred_format(group.weights, group.inputs);
  if (const JsonValue* format = value.get("format")) {
    if (!format->is_string() || !is_one_of(format->text, kFormats) || format->text == "mixed-precision")
      return config_fault(place + ".format is " + format->brief() + ", which is no format of a group.");
    group.format = format->text;
    group.format_given = true;
  }
  return group;
}

Result<void> parse_observer(const JsonValue& value, Args& args) {
  if (const JsonValue* observer = value.get("observer")) {
    if (!observer->is_string())
      return config_fault("has \"observer\": " + observer->brief() + ", not a name");
    args.observer = observer->text;
  }
  if (const JsonValue* kwargs = value.find("observer_kwargs")) {
    if (!kwargs->is_object())
      return config_fault("has \"observer_kwargs\": " + kwargs->brief() + ", not an object");
    args.observer_kwargs = to_ordered_json(*kwargs).dump();
  }
  if (args.dynamic && !args.local)
    args.observer.reset();
  else if (!args.observer)
    args.observer = args.local ? "minmax" : "memoryless_minmax";
  return {};
}

}  // namespace

DType storage_dtype(const Args& args) {
  if (args.is_float) return DType::F8_E4M3;
  return args.bits <= 8 ? DType::I8 : args.bits <= 16 ? DType::I16 : DType::I32;
}

std::string_view strategy_name(Strategy strategy) { return kStrategies[static_cast<size_t>(strategy)]; }

std::string args_text(const Args& args) {
  std::string text = std::to_string(args.bits) + "-bit " + (args.is_float ? "float, " : "int, ") +
                     std::string(strategy_name(args.strategy));
  if (args.grouped()) text += " " + std::to_string(args.group_size);
  if (args.strategy == Strategy::kBlock)
    text += " " + std::to_string(args.block[0]) + "x" + std::to_string(args.block[1]);
  return text + (args.symmetric ? "" : ", asymmetric");
}

Result<Args> parse_args(const JsonValue& value) {
  if (!value.is_object()) return config_fault("is " + value.brief() + ", not an object");
  for (const auto& [key, member] : value.members)
    if (!is_one_of(key, kArgs)) return config_fault("has the unknown key " + quote_name(key));
  Args args;
  const auto wrong = [&](std::string_view key, std::string_view need) {
    return config_fault("has \"" + std::string(key) + "\": " + value.find(key)->brief() + ", not " +
                        std::string(need));
  };
  if (const JsonValue* bits = value.find("num_bits")) {
    const auto number = coerced_integer(*bits);
    if (!number || *number < 0) return wrong("num_bits", "a number of bits");
    args.bits = static_cast<uint64_t>(*number);
  }
  if (const JsonValue* type = value.find("type")) {
    const std::string text = type->is_string() ? lower_text(type->text) : "";
    if (text != "int" && text != "float") return wrong("type", "int or float");
    args.is_float = text == "float";
  }
  if (const JsonValue* symmetric = value.find("symmetric")) {
    const auto flag = coerced_bool(*symmetric);
    if (!flag) return wrong("symmetric", "true or false");
    args.symmetric = *flag;
  }
  std::optional<int64_t> group;
  if (const JsonValue* size = value.get("group_size")) {
    group = coerced_integer(*size);
    if (!group || *group < -1) return wrong("group_size", "a number from -1 on");
    args.group_size = *group;
    args.group_given = true;
  }
  if (const JsonValue* strategy = value.get("strategy")) {
    const auto at = std::find(std::begin(kStrategies), std::end(kStrategies),
                              strategy->is_string() ? lower_text(strategy->text) : "");
    if (at == std::end(kStrategies)) return wrong("strategy", "one that is known");
    args.strategy = static_cast<Strategy>(at - std::begin(kStrategies));
  } else if (group) {
    if (*group == 0) return wrong("group_size", "a size of groups");
    args.strategy = *group > 0 ? Strategy::kGroup : Strategy::kChannel;
  }
  bool local = false, block = false;
  if (const JsonValue* structure = value.get("block_structure")) {
    const auto sides = block_structure(*structure);
    if (!sides) return wrong("block_structure", "two sizes above 0");
    args.block[0] = sides->first;
    args.block[1] = sides->second;
    block = true;
  }
  if (const JsonValue* dynamic = value.get("dynamic")) TFTF_TRY(parse_dynamic(*dynamic, args, local));
  if (const JsonValue* order = value.get("actorder")) TFTF_TRY(parse_actorder(*order, args));
  if (const JsonValue* dtype = value.get("scale_dtype"))
    TFTF_TRY(parse_dtype(*dtype, "scale_dtype", args.scale_dtype));
  if (const JsonValue* dtype = value.get("zp_dtype"))
    TFTF_TRY(parse_dtype(*dtype, "zp_dtype", args.zp_dtype));
  TFTF_TRY(parse_observer(value, args));
  TFTF_TRY(check_args(args, local, block));
  if (!args.zp_dtype) args.zp_dtype = storage_dtype(args);
  return args;
}

Result<Config> parse_config(const JsonValue& section) {
  const JsonValue* groups = section.find("config_groups");
  if (groups == nullptr || !groups->is_object())
    return config_fault("config_groups is missing or no object.");
  Config config;
  for (const auto& [name, value] : groups->members) {
    Result<Group> group = parse_group(name, value);
    if (!group) return std::move(group).error();
    config.groups.push_back(*std::move(group));
  }
  if (const JsonValue* ignore = section.get("ignore"))
    TFTF_TRY(parse_strings(*ignore, "ignore", config.ignore));
  if (const JsonValue* status = section.find("quantization_status")) {
    if (!status->is_string() || !is_one_of(status->text, kStatuses))
      return config_fault("quantization_status is " + status->brief() + ", which is none that is known.");
    config.status = status->text;
  }
  if (const JsonValue* cache = section.get("kv_cache_scheme")) {
    Result<Args> args = parse_args(*cache);
    if (!args) return config_fault("kv_cache_scheme " + args.error().message + ".");
    config.cache = *std::move(args);
  }
  config.format = section.string("format").value_or("");
  config.method = section.string("quant_method").value_or(config.method);
  if (const JsonValue* ratio = section.get("global_compression_ratio");
      ratio != nullptr && ratio->is_number())
    config.compression_ratio = ratio->text;
  if (const auto version = section.string("version")) {
    config.version_text = *version;
    config.version = version_number(*version);
  }
  return config;
}

std::optional<uint64_t> version_number(std::string_view text) {
  uint64_t numbers[3] = {};
  size_t at = 0, count = 0;
  while (count < 3 && at < text.size() && text[at] >= '0' && text[at] <= '9') {
    uint64_t number = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(text[at++] - '0'), 999);
    numbers[count++] = number;
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  if (count < 2) return std::nullopt;
  return numbers[0] * 1'000'000 + numbers[1] * 1'000 + numbers[2];
}

std::string_view inferred_format(const std::optional<Args>& weights, const std::optional<Args>& inputs) {
  if (!weights) return "dense";
  const Args& w = *weights;
  if (w.is_float && w.bits == 4 && w.group_size == 32) return "mxfp4-pack-quantized";
  if (w.is_float && w.bits == 8 && w.group_size == 32 && w.scale_dtype == DType::U8) return "mxfp8-quantized";
  if (w.is_float && w.bits == 4 && w.group_size == 16) return "nvfp4-pack-quantized";
  if (inputs && !w.is_float) return "int-quantized";
  if (!w.is_float && w.bits >= 1 && w.bits <= 8) return "pack-quantized";
  return inputs ? "float-quantized" : "naive-quantized";
}

}  // namespace tftf::ct
