// Rotations that a model was trained or calibrated with (spec compressed-tensors 1.8).
#include <algorithm>
#include <iterator>

#include "quant/ct/config.h"
#include "tftf/base/escape.h"

namespace tftf::ct {
namespace {

constexpr std::string_view kLocations[] = {"input",  "weight_input", "weight_output",
                                           "output", "k_cache",      "q_attn"};

Error transform_fault(std::string what) {
  return {.code = ErrorCode::kRefusedConfig, .message = std::move(what)};
}

template <size_t N>
Result<void> check_keys(const JsonValue& object, const std::string_view (&keys)[N],
                        const std::string& place) {
  if (!object.is_object()) return transform_fault(place + " is " + object.brief() + ", not an object.");
  for (const auto& [key, member] : object.members)
    if (std::find(std::begin(keys), std::end(keys), key) == std::end(keys))
      return transform_fault(place + " has the unknown key " + quote_name(key) + ".");
  return {};
}

// A list of strings, or one string.
Result<OrderedJson> one_or_more(const JsonValue* value, const std::string& place) {
  OrderedJson out = OrderedJson::array();
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.push_back(value->text);
    return out;
  }
  if (!value->is_array())
    return transform_fault(place + " is " + value->brief() + ", not a list of strings.");
  for (const JsonValue& one : value->elements) {
    if (!one.is_string()) return transform_fault(place + " holds " + one.brief() + ", not a string.");
    out.push_back(one.text);
  }
  return out;
}

Result<bool> flag(const JsonValue& object, std::string_view key, const std::string& place) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return false;
  if (value->kind != JsonKind::kBoolean)
    return transform_fault(place + "." + std::string(key) + " is " + value->brief() + ", not true or false.");
  return value->boolean;
}

Result<OrderedJson> parse_application(const JsonValue& value, const std::string& place) {
  constexpr std::string_view kKeys[] = {"targets", "location", "inverse", "ignore"};
  TFTF_TRY(check_keys(value, kKeys, place));
  const JsonValue *targets = value.find("targets"), *location = value.find("location");
  if (targets == nullptr) return transform_fault(place + " has no targets.");
  if (location == nullptr) return transform_fault(place + " has no location.");
  if (std::find(std::begin(kLocations), std::end(kLocations), location->is_string() ? location->text : "") ==
      std::end(kLocations))
    return transform_fault(place + ".location is " + location->brief() + ", which is no place for one.");
  Result<OrderedJson> ignored = one_or_more(value.find("ignore"), place + ".ignore");
  if (!ignored) return std::move(ignored).error();
  Result<bool> inverse = flag(value, "inverse", place);
  if (!inverse) return std::move(inverse).error();
  Result<OrderedJson> meant = one_or_more(targets, place + ".targets");
  if (!meant) return std::move(meant).error();
  OrderedJson out;
  out["ignore"] = *std::move(ignored);
  out["inverse"] = *inverse;
  out["location"] = location->text;
  out["targets"] = *std::move(meant);
  return out;
}

Result<OrderedJson> parse_transform(const JsonValue& value, const std::string& place) {
  constexpr std::string_view kKeys[] = {"type",          "apply",    "randomize",
                                        "requires_grad", "head_dim", "precision"};
  TFTF_TRY(check_keys(value, kKeys, place));
  const JsonValue* type = value.find("type");
  if (type == nullptr || !type->is_string()) return transform_fault(place + " has no type.");
  OrderedJson apply = OrderedJson::array();
  if (const JsonValue* list = value.find("apply")) {
    if (!list->is_array()) return transform_fault(place + ".apply is " + list->brief() + ", not a list.");
    for (size_t i = 0; i < list->elements.size(); ++i) {
      Result<OrderedJson> one = parse_application(list->elements[i], place + ".apply." + std::to_string(i));
      if (!one) return std::move(one).error();
      apply.push_back(*std::move(one));
    }
  }
  Result<bool> randomize = flag(value, "randomize", place), grad = flag(value, "requires_grad", place);
  if (!randomize) return std::move(randomize).error();
  if (!grad) return std::move(grad).error();
  OrderedJson head = nullptr;
  if (const JsonValue* dim = value.get("head_dim")) {
    const auto number = dim->as_integer();
    if (!number) return transform_fault(place + ".head_dim is " + dim->brief() + ", not a whole number.");
    head = json_integer(*number);
  }
  std::string precision = "torch.float32";
  if (const JsonValue* given = value.get("precision")) {
    std::string_view name = given->is_string() ? std::string_view(given->text) : "";
    if (name.starts_with("torch.")) name.remove_prefix(6);
    const auto dtype = find_torch_dtype(name);
    if (!dtype)
      return transform_fault(place + ".precision is " + given->brief() + ", which is no dtype of torch.");
    precision = "torch." + std::string(dtype_info(*dtype).torch);
  }
  OrderedJson out;
  out["apply"] = std::move(apply);
  out["head_dim"] = std::move(head);
  out["precision"] = precision;
  out["randomize"] = *randomize;
  out["requires_grad"] = *grad;
  out["type"] = type->text;
  return out;
}

}  // namespace

Result<OrderedJson> parse_transforms(const JsonValue& section) {
  constexpr std::string_view kKeys[] = {"config_groups"};
  TFTF_TRY(check_keys(section, kKeys, "transform_config"));
  const JsonValue* groups = section.find("config_groups");
  if (groups == nullptr || !groups->is_object())
    return transform_fault("transform_config.config_groups is missing or no object.");
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, value] : groups->members) {
    Result<OrderedJson> one = parse_transform(value, "transform_config.config_groups." + quote_name(name));
    if (!one) return std::move(one).error();
    out[name] = *std::move(one);
  }
  return OrderedJson{{"config_groups", std::move(out)}};
}

}  // namespace tftf::ct
