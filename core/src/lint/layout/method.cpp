#include "lint/layout/method.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "lint/file_names.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

using Kind = ModuleKind;

struct MethodKinds {
  std::string_view method;
  std::initializer_list<Kind> kinds;
};
constexpr MethodKinds kMethods[] = {
    {"gptq", {Kind::kPackedInt}},
    {"awq", {Kind::kPackedInt}},
    {"fp8", {Kind::kFp8Inv, Kind::kFp8Scale, Kind::kFp4I8, Kind::kMxfp8, Kind::kNvfp4}},
    {"fbgemm-fp8", {Kind::kFp8Scale}},
    {"mxfp8", {Kind::kFp8Inv, Kind::kMxfp8}},
    {"modelopt",
     {Kind::kFp8Inv, Kind::kFp8Scale, Kind::kNvfp4, Kind::kInt8, Kind::kU8Scaled, Kind::kMxfp4,
      Kind::kMxfp8}},
    {"quark",
     {Kind::kFp8Scale, Kind::kMxfp8, Kind::kMxfp4, Kind::kU8Scaled, Kind::kInt8, Kind::kIntQuark,
      Kind::kNvfp4, Kind::kPackedInt}},
    {"auto-round",
     {Kind::kPackedInt, Kind::kCtPacked, Kind::kFp8Inv, Kind::kFp8Scale, Kind::kMxfp8, Kind::kMxfp4,
      Kind::kNvfp4, Kind::kMlx}},
    {"bitsandbytes", {Kind::kBnb}},
    {"mxfp4", {Kind::kMxfp4Blocks, Kind::kMxfp4}},
    {"bitnet", {Kind::kU8Scaled}},
    {"sinq", {Kind::kHqq}},
    {"aqlm", {Kind::kAqlm}},
    {"vptq", {Kind::kVptq}},
    {"hqq", {Kind::kHqq}},
    {"exl2", {Kind::kExl2}},
    {"exl3", {Kind::kExl3}},
    {"quip", {Kind::kQuip}},
    {"quanto", {Kind::kQuanto}},
    {"spqr", {Kind::kSpqr}},
    {"higgs", {Kind::kHiggs}},
    {"eetq", {Kind::kEetq}},
    {"fp-quant", {Kind::kFpQuant}},
};

const MethodKinds* find_method(std::string_view method) {
  const auto found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                  [&](const MethodKinds& one) { return one.method == method; });
  return found == std::end(kMethods) ? nullptr : found;
}

bool is_set(const JsonValue* value) {
  return value && !(value->kind == JsonKind::kBoolean && !value->boolean) && !value->is_null();
}

bool holds_members(const JsonValue* value) { return value && value->is_object() && !value->members.empty(); }

// Only the cache is quantised: an algorithm for it, none for the weights.
bool is_cache_only(const QuantConfig& quant) {
  const JsonValue* algorithm = quant.get("quant_algo");
  const bool weights = (algorithm && !algorithm->is_null()) || quant.get("config_groups");
  return !weights && (is_set(quant.get("kv_cache_quant_algo")) || is_set(quant.get("kv_cache_scheme")));
}

bool quark_has_weights(const QuantConfig& quant) {
  const JsonValue* global = quant.get("global_quant_config");
  if (global && global->is_object() && is_set(global->get("weight"))) return true;
  return holds_members(quant.get("layer_quant_config")) ||
         holds_members(quant.get("layer_type_quant_config"));
}

}  // namespace

std::string declared_method(const QuantConfig& quant) {
  std::string method = quant.method == "mlx" ? "" : quant.method;
  if (const JsonValue* section = quant.section; section && !section->string("quant_method")) {
    const JsonValue* four = section->get("load_in_4bit");
    const JsonValue* eight = section->get("load_in_8bit");
    if ((four && four->is_true()) || (eight && eight->is_true()))
      method = "bitsandbytes";
    else if (section->get("quantization_status"))
      method = "compressed-tensors";
  }
  method = fold_case(method);
  std::replace(method.begin(), method.end(), '_', '-');
  if (method == "intel/auto-round") method = "auto-round";
  if (starts_with(method, "modelopt")) method = "modelopt";
  return method;
}

bool is_known_method(std::string_view method) { return find_method(method) != nullptr; }

bool method_stores(std::string_view method, ModuleKind kind) {
  const MethodKinds* known = find_method(method);
  return known && std::find(known->kinds.begin(), known->kinds.end(), kind) != known->kinds.end();
}

bool stores_plain_weights(std::string_view method, const QuantConfig& quant) {
  for (const std::string_view loading : {"quanto", "hqq", "eetq", "higgs", "sinq"})
    if (method == loading) return true;
  const JsonValue* bits = quant.get("bits");
  if (bits && bits->as_integer().value_or(0) >= 16) return true;
  if (method == "modelopt") return is_cache_only(quant);
  if (method == "bitnet") {
    const JsonValue* mode = quant.get("quantization_mode");
    return mode && mode->is_string() && mode->text == "online";
  }
  if (method == "fp-quant") {
    const JsonValue* masters = quant.get("store_master_weights");
    return masters && masters->is_true();
  }
  return method == "quark" && !quark_has_weights(quant);
}

}  // namespace tftf
