// AMD Quark (spec quant-layouts-2 1): the method names it, and the configuration says what the codes are where shapes do not.
#include <algorithm>

#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/qweight.h"
#include "quant/scale_shape.h"
#include "quant/scaled_codes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"

namespace tftf {
namespace {

constexpr std::string_view kQuarkRole = "weight_scale";
constexpr std::string_view kQuarkZero = "weight_zero_point";
constexpr uint64_t kQuarkGroup = 32;

Result<Weight> open_quark_mxfp4(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE2m1, .group = kQuarkGroup}, kQuarkRole);
}
Result<Weight> open_quark_e2m3(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE2m3, .group = kQuarkGroup}, kQuarkRole);
}
Result<Weight> open_quark_e3m2(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE3m2, .group = kQuarkGroup}, kQuarkRole);
}
Result<Weight> open_quark_fp8(OpenContext& context, const QuantMatch& match) {
  return open_fp8_scales(context, match, kQuarkRole);
}

// What the configuration says of integers, and what the tensors have to be for it.
struct QuarkIntegers {
  bool is_signed = false;
  bool in_order = false;  // fields are in the order of the columns, not in AWQ's
};

Result<Weight> open_quark_int4(OpenContext& context, const QuantMatch& match) {
  const auto& integers = *static_cast<const QuarkIntegers*>(match.detail.get());
  const TensorRef scales = *match.find(kQuarkRole);
  const TensorRef* zeros = match.find(kQuarkZero);
  QweightGeometry g;
  g.packing = QweightPacking::kGemm;
  g.outputs = (*match.logical_shape)[0];
  g.inputs = (*match.logical_shape)[1];
  g.group = match.group_size;
  g.groups = context.checkpoint.info(scales).shape[0];
  g.scale_width = g.outputs;
  g.scale = context.checkpoint.info(scales).dtype;
  g.has_zeros = zeros != nullptr;
  g.flip = integers.is_signed ? 8 : 0;
  g.in_order = integers.in_order;
  if (g.inputs > UINT32_MAX || !checked_mul(g.outputs, g.inputs) || g.outputs * g.inputs == 0)
    return weight_fault(ErrorCode::kRefusedShape, context, match, "has no elements or too many");
  QweightParts parts{match.weight, scales};
  if (zeros != nullptr) parts.zeros = *zeros;
  return qweight_weight(g, match.layout, parts);
}

constexpr QuantFormat kQuarkMxfp4 = {.id = "quark-mxfp4", .title = "Quark MXFP4", .open = open_quark_mxfp4};
constexpr QuantFormat kQuarkE2m3 = {
    .id = "quark-mxfp6-e2m3", .title = "Quark MXFP6, E2M3", .open = open_quark_e2m3};
constexpr QuantFormat kQuarkE3m2 = {
    .id = "quark-mxfp6-e3m2", .title = "Quark MXFP6, E3M2", .open = open_quark_e3m2};
constexpr QuantFormat kQuarkFp8 = {.id = "quark-fp8", .title = "Quark FP8", .open = open_quark_fp8};
constexpr QuantFormat kQuarkInt4 = {
    .id = "quark-int4", .title = "Quark INT4 by groups, packed along the rows", .open = open_quark_int4};
constexpr QuantFormat kQuarkMx = {"quark-mx", "Quark MX, exponents between the codes", true};

// What the configuration says of a module's weight: its own entry, one whose glob fits, else the global one.
const JsonValue* weight_section(const LayoutScan& scan, const std::string& module) {
  const JsonValue* found = scan.config().get("global_quant_config");
  const JsonValue* layers = scan.config().get("layer_quant_config");
  if (layers != nullptr && layers->is_object())
    for (const auto& [pattern, section] : layers->members)
      if (pattern == module || Glob(pattern).matches(module)) found = &section;
  return found == nullptr ? nullptr : found->get("weight");
}

std::string quark_dtype(const JsonValue* section) {
  const auto dtype = section == nullptr ? std::nullopt : section->string("dtype");
  return dtype ? std::string(*dtype) : std::string();
}

// I32 words of eight columns; what does not fit, as the end of a sentence.
std::string fit_integers(const LayoutScan& scan, const JsonValue* section, QuantMatch& match) {
  const TensorInfo &codes = scan.info(match.weight), &scales = scan.info(*match.find(kQuarkRole));
  const std::string dtype = quark_dtype(section);
  const auto scheme = section == nullptr ? std::nullopt : section->string("qscheme");
  if (dtype != "int4" && dtype != "uint4")
    return "its codes are I32 of dtype " + quote_name(dtype) + ", which are not read";
  if (scheme && *scheme != "per_group")
    return "its scheme is " + quote_name(std::string(*scheme)) + ", and only per_group is read";
  if (codes.shape.size() != 2 || codes.shape[1] > UINT64_MAX / 8 || !is_scale_float(scales.dtype) ||
      scales.shape.size() != 2 || scales.shape[0] == 0 || scales.shape[1] != codes.shape[1] * 8 ||
      codes.shape[0] % scales.shape[0] != 0)
    return "weight_scale " + shape_text(scales.shape) + " does not fit the weight " +
           shape_text(codes.shape) + " of eight codes to a word";
  match.logical_shape = Shape{codes.shape[1] * 8, codes.shape[0]};
  match.group_size = codes.shape[0] / scales.shape[0];
  const auto declared = section->integer("group_size");
  if (declared && *declared > 0 && static_cast<uint64_t>(*declared) != match.group_size)
    return "its scales are for groups of " + std::to_string(match.group_size) +
           ", and the configuration says groups of " + std::to_string(*declared);
  const TensorRef* zeros = match.find(kQuarkZero);
  if (zeros != nullptr && (scan.info(*zeros).dtype != DType::I32 ||
                           scan.info(*zeros).shape != Shape{scales.shape[0], codes.shape[1]}))
    return "weight_zero_point " + std::string(dtype_name(scan.info(*zeros).dtype)) + " " +
           shape_text(scan.info(*zeros).shape) + " does not fit the scales " + shape_text(scales.shape);
  if (zeros == nullptr && dtype == "uint4") return "its codes are uint4, and weight_zero_point is missing";
  const JsonValue* way = scan.config().get("export");
  const auto method = way == nullptr ? std::nullopt : way->string("pack_method");
  if (method && *method != "reorder" && *method != "order")
    return "its pack_method " + quote_name(std::string(*method)) + " is not known";
  match.layout = kQuarkInt4.id;
  match.bits = 4;
  match.logical_dtype = native_dtype(scales.dtype);
  match.detail = std::make_shared<const QuarkIntegers>(QuarkIntegers{dtype == "int4", method == "order"});
  return {};
}

// The layout of bytes with exponents; null: none of these.
const QuantFormat* microscaled(const LayoutScan& scan, const std::string& module, const Shape& codes,
                               const Shape& exponents) {
  if (codes.size() < 2 || exponents.size() != codes.size() ||
      !std::equal(codes.begin(), codes.end() - 1, exponents.begin()))
    return nullptr;
  const auto bits = checked_mul(exponents.back(), kQuarkGroup);
  const std::string dtype = quark_dtype(weight_section(scan, module));
  if (!bits) return nullptr;
  if (codes.back() * 2 == *bits) return &kQuarkMxfp4;
  if (checked_mul(codes.back(), 4) != checked_mul(*bits, 3)) return nullptr;
  if (dtype == "fp6_e2m3") return &kQuarkE2m3;
  if (dtype == "fp6_e3m2") return &kQuarkE3m2;
  return nullptr;
}

void detect_quark_module(LayoutScan& scan, const std::string& module, TensorRef weight,
                         std::optional<TensorRef> scale) {
  const TensorInfo& codes = scan.info(weight);
  const JsonValue* section = weight_section(scan, module);
  const std::string dtype = quark_dtype(section);
  const auto broken = [&](std::string what) {
    scan.problem("quark", codes.name, std::move(what), {weight, scale});
  };
  if (!scale) {
    if (dtype == "mx" && codes.dtype == DType::U8) {
      QuantMatch match;
      match.layout = kQuarkMx.id;
      match.module = codes.name;
      match.weight = weight;
      match.role = "weight";
      match.bits = 4;
      scan.claim(std::move(match));
    }
    return;
  }
  const TensorInfo& values = scan.info(*scale);
  if (section != nullptr && section->is_array())
    return broken("its scales have two levels, which are not read");
  const auto scale_format = section == nullptr ? std::nullopt : section->string("scale_format");
  if (scale_format && *scale_format == "e5m3") return broken("its scales are e5m3, which are not read");
  if (scan.config().get("input_rotation") != nullptr)
    return broken("its basis is rotated (input_rotation), which is not read");
  QuantMatch match;
  match.module = codes.name;
  match.weight = weight;
  match.role = "weight";
  match.companions.push_back({kQuarkRole, *scale});
  match.logical_shape = codes.shape;
  const bool exponents = values.dtype == DType::U8 || values.dtype == DType::F8_E8M0;
  if (codes.dtype == DType::U8 && exponents) {
    const QuantFormat* format = microscaled(scan, module, codes.shape, values.shape);
    if (format == nullptr)
      return broken("U8 " + shape_text(codes.shape) + " with exponents " + shape_text(values.shape) +
                    " is neither FP4 nor an FP6 that the configuration names (dtype " + quote_name(dtype) +
                    ")");
    match.layout = format->id;
    match.bits = format == &kQuarkMxfp4 ? 4 : 6;
    match.group_size = kQuarkGroup;
    match.logical_shape->back() = values.shape.back() * kQuarkGroup;
  } else if (is_fp8(codes.dtype) && is_scale_float(values.dtype)) {
    if (scale_shape(codes.shape, values.shape) == ScaleShape::kOther)
      return broken("weight_scale " + shape_text(values.shape) + " does not fit the weight " +
                    shape_text(codes.shape));
    match.layout = kQuarkFp8.id;
    match.bits = 8;
    match.logical_dtype = native_dtype(values.dtype);
  } else if (codes.dtype == DType::I32) {
    if (!scan.add_companion(match, kQuarkZero, module, ".weight_zero_point"))
      scan.add_companion(match, kQuarkZero, module, ".weight_quantizer.zero_point");
    std::string fault = fit_integers(scan, section, match);
    if (!fault.empty()) return broken(std::move(fault));
  } else {
    return broken("its codes are " + std::string(dtype_name(codes.dtype)) + " of dtype " + quote_name(dtype) +
                  " with scales that are " + std::string(dtype_name(values.dtype)) + ", which are not read");
  }
  for (const std::string_view role : {"input_scale", "output_scale"})
    scan.add_companion(match, role, module, "." + std::string(role));
  for (const std::string_view role : {"input_quantizer", "output_quantizer"})
    for (const std::string_view part : {".scale", ".zero_point"})
      scan.add_companion(match, role, module, "." + std::string(role) + std::string(part));
  scan.claim(std::move(match));
}

void detect_quark(LayoutScan& scan) {
  if (scan.config().method != "quark") return;
  bool found = false;
  for (const TensorRef weight : scan.ending(".weight")) {
    const DType dtype = scan.info(weight).dtype;
    if (dtype != DType::U8 && dtype != DType::I8 && dtype != DType::I32 && !is_fp8(dtype)) continue;
    const std::string module(scan.stem(weight, ".weight"));
    std::optional<TensorRef> scale = scan.sibling(module, ".weight_scale");
    if (!scale) scale = scan.sibling(module, ".weight_quantizer.scale");
    detect_quark_module(scan, module, weight, scale);
    found = found || !scan.is_free(weight);
  }
  if (!found) return;
  for (const QuantFormat* format : {&kQuarkMxfp4, &kQuarkE2m3, &kQuarkE3m2, &kQuarkFp8, &kQuarkInt4}) {
    if (!scan.has_found(format->id)) continue;
    for (const std::string_view suffix : {".k_scale", ".v_scale"})
      for (const TensorRef scale : scan.ending(suffix))
        if (is_scalar(scan.info(scale).shape) && is_scale_float(scan.info(scale).dtype))
          scan.claim_extra(format->id, scale);
    return;
  }
}

constexpr const QuantFormat* kQuarkFormats[] = {&kQuarkMxfp4, &kQuarkE2m3, &kQuarkE3m2,
                                                &kQuarkFp8,   &kQuarkInt4, &kQuarkMx};

}  // namespace

constexpr QuantFamily kQuarkFamily = {"Quark", kQuarkFormats, detect_quark};

}  // namespace tftf
