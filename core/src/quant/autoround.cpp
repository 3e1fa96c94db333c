// auto-round's packings that share names, dtypes and shapes with compressed-tensors and differ in what the bytes mean: only the
// configuration's data_type tells them apart (spec quant-layouts-2 4).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/scaled_codes.h"
#include "tftf/base/checked.h"
#include "tftf/base/regex.h"

namespace tftf {
namespace {

constexpr std::string_view kAutoroundScale = "weight_scale";

Result<Weight> open_mxint4(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE0m4, .group = 32}, kAutoroundScale);
}
Result<Weight> open_nvfp4_e5m3(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE2m1, .group = 16, .e5m3 = true},
                           kAutoroundScale);
}

constexpr QuantFormat kMxint4 = {
    .id = "autoround-mxint4", .title = "auto-round MXINT4, quarters with a sign", .open = open_mxint4};
constexpr QuantFormat kNvfp4E5m3 = {
    .id = "autoround-nvfp4-e5m3", .title = "auto-round NVFP4 with E5M3 scales", .open = open_nvfp4_e5m3};

// data_type of the configuration, with what extra_config says of single layers, by name or by pattern.
class DataTypes {
 public:
  explicit DataTypes(const QuantConfig& config) {
    if (const JsonValue* all = config.get("data_type")) all_ = all->text;
    const JsonValue* extra = config.get("extra_config");
    if (extra == nullptr || !extra->is_object()) return;
    for (const auto& [name, section] : extra->members) {
      const auto type = section.is_object() ? section.string("data_type") : std::nullopt;
      if (!type) continue;
      Result<Regex> pattern = Regex::compile(name);
      Named one{name, std::nullopt, std::string(*type)};
      if (pattern) one.pattern.emplace(*std::move(pattern));
      named_.push_back(std::move(one));
    }
  }
  std::string_view of(std::string_view module) const {
    for (const Named& one : named_)
      if (one.name == module) return one.type;
    for (const Named& one : named_) {
      if (!one.pattern) continue;
      const Result<bool> fits = one.pattern->match(module);
      if (fits && *fits) return one.type;
    }
    return all_;
  }

 private:
  struct Named {
    std::string name;
    std::optional<Regex> pattern;
    std::string type;
  };
  std::string all_;
  std::vector<Named> named_;
};

bool is_autoround(const std::string& method) {
  return method == "auto-round" || method == "auto_round" || method == "intel/auto-round";
}

// Static FP8 has a place for zero points that no file has been seen to use: what they would mean is not known.
void refuse_zero_points(LayoutScan& scan) {
  for (const TensorRef zero : scan.ending(".weight_zp")) {
    const std::string_view module = scan.stem(zero, ".weight_zp");
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (weight && is_fp8(scan.info(*weight).dtype))
      scan.problem("fp8-scaled", scan.info(*weight).name, "it has a weight_zp, which is not read",
                   {weight, zero, scan.sibling(module, ".weight_scale")});
  }
}

void detect_autoround(LayoutScan& scan) {
  if (!is_autoround(scan.config().method)) return;
  refuse_zero_points(scan);
  const DataTypes types(scan.config());
  for (const TensorRef packed : scan.ending(".weight_packed")) {
    const std::string_view module = scan.stem(packed, ".weight_packed");
    const std::string_view type = types.of(module);
    const bool integers = type == "mx_int4";
    if ((!integers && type != "nvfp4_v2") || scan.info(packed).dtype != DType::U8) continue;
    QuantMatch match;
    match.layout = integers ? kMxint4.id : kNvfp4E5m3.id;
    match.module = std::string(module) + ".weight";
    match.weight = packed;
    match.role = "weight_packed";
    match.bits = 4;
    match.group_size = integers ? 32 : 16;
    const auto broken = [&](std::string what) { scan.problem(match, std::move(what)); };
    if (!scan.add_companion(match, kAutoroundScale, module, ".weight_scale")) {
      broken("weight_scale is missing");
      continue;
    }
    scan.add_companion(match, "input_global_scale", module, ".input_global_scale");
    const TensorInfo &codes = scan.info(packed), &scales = scan.info(match.companions.front().tensor);
    const auto columns = codes.shape.size() == 2 ? checked_mul(codes.shape[1], 2) : std::nullopt;
    if (!columns || *columns % match.group_size != 0 || scales.dtype != DType::U8 ||
        scales.shape != Shape{codes.shape[0], *columns / match.group_size}) {
      broken("weight_scale " + std::string(dtype_name(scales.dtype)) + " " + shape_text(scales.shape) +
             " does not give " + shape_text(codes.shape) + " a byte for " + std::to_string(match.group_size) +
             " codes");
      continue;
    }
    match.logical_shape = Shape{codes.shape[0], *columns};
    scan.claim(std::move(match));
  }
}

constexpr const QuantFormat* kAutoroundFormats[] = {&kMxint4, &kNvfp4E5m3};

}  // namespace

constexpr QuantFamily kAutoroundFamily = {"auto-round", kAutoroundFormats, detect_autoround};

}  // namespace tftf
