// FP8 whose producer nobody names: with a `weight_scale`, or with no scale at all (spec other-quant-layouts
// 10, steps 12 and 13).
#include <algorithm>

#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/scale_names.h"
#include "quant/scale_shape.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// The scale's name as it is stored, "weight_scale" first.
constexpr std::string_view kScaleRoles[] = {"weight_scale", "weight_scale_inv", "qscale_weight"};

Result<Weight> open_scaled(OpenContext& context, const QuantMatch& match) {
  for (const std::string_view role : kScaleRoles)
    if (match.find(role) != nullptr) return open_fp8_scales(context, match, role);
  return open_fp8_scales(context, match, "weight_scale");
}

// A plain cast: the codes are the values.
Result<Weight> open_unscaled(OpenContext& context, const QuantMatch& match) {
  return fp8_plain_weight(context.checkpoint.info(match.weight), match.weight);
}

constexpr QuantFormat kFp8ScaledScaled = {
    .id = "fp8-scaled", .title = "FP8 with a weight_scale, producer not named", .open = open_scaled};
constexpr QuantFormat kUnscaled = {
    .id = "fp8-unscaled", .title = "FP8 without scales (a plain cast)", .open = open_unscaled};

void detect_scaled(LayoutScan& scan, std::string_view role) {
  const std::string suffix = "." + std::string(role);
  for (TensorRef scale : scan.ending(suffix)) {
    const std::string_view module = scan.stem(scale, suffix);
    std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight) weight = scan.find(module);
    const DType dtype = scan.info(scale).dtype;
    if (!weight || (!is_scale_float(dtype) && dtype != DType::F64)) continue;
    const TensorInfo& codes = scan.info(*weight);
    if (codes.dtype == DType::I8)
      scan.note("I8 weights with " + std::string(role) +
                " are of no named producer and are left as they are");
    if (!is_fp8(codes.dtype)) continue;
    QuantMatch match;
    match.layout = kFp8ScaledScaled.id;
    match.module = codes.name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({role, scale});
    for (std::string_view extra : {"input_scale", "activation_scale", "qscale_act"})
      scan.add_companion(match, extra, module, "." + std::string(extra));
    match.logical_dtype = native_dtype(scan.info(scale).dtype);
    match.logical_shape = codes.shape;
    match.bits = 8;
    const Shape& shape = scan.info(scale).shape;
    if (scale_shape(codes.shape, shape) == ScaleShape::kOther) {
      const std::optional<BlockSize> block = block_of(codes.shape, shape, declared_blocks(scan.config()));
      if (!block) {
        scan.problem(kFp8ScaledScaled.id, codes.name,
                     std::string(role) + " " + shape_text(shape) + " does not fit the weight " +
                         shape_text(codes.shape),
                     {weight, scale});
        continue;
      }
      match.block[0] = block->rows;
      match.block[1] = block->columns;
    }
    scan.claim(std::move(match));
  }
}

// Prefixes below which ComfyUI's marker `scaled_fp8` promises a scale for every F8 weight.
std::vector<std::string_view> marked_prefixes(const LayoutScan& scan) {
  constexpr std::string_view kScaledMarker = "scaled_fp8";
  std::vector<std::string_view> out;
  for (TensorRef tensor : scan.checkpoint().order) {
    const std::string_view name = scan.info(tensor).name;
    if (name.size() >= kScaledMarker.size() &&
        name.substr(name.size() - kScaledMarker.size()) == kScaledMarker)
      out.push_back(name.substr(0, name.size() - kScaledMarker.size()));
  }
  return out;
}

void detect_unscaled(LayoutScan& scan) {
  const std::vector<std::string_view> marked = marked_prefixes(scan);
  const bool wants_scales = scan.config().method == "fp8";
  ScaleNames scales;
  for (TensorRef tensor : scan.checkpoint().order)
    scales.add(scan.info(tensor).name, scan.info(tensor).dtype);
  for (TensorRef tensor : scan.checkpoint().order) {
    const TensorInfo& info = scan.info(tensor);
    if (!scan.is_free(tensor) || !is_fp8(info.dtype)) continue;
    const std::string_view last = std::string_view(info.name).substr(info.name.rfind('.') + 1);
    if (last.find("scale") != std::string_view::npos || last == "qdata") continue;
    if (const auto scale = scales.beside(info.name)) {
      scan.problem("FP8", info.name,
                   "it is " + std::string(dtype_name(info.dtype)) + " with the scale " + quote_name(*scale) +
                       " beside it, which is of no known layout",
                   {tensor});
      continue;
    }
    if (wants_scales && last == "weight") {
      scan.problem("fp8-block", info.name,
                   "its scale is missing, and " + scan.config().method_place + " says fp8", {tensor});
      continue;
    }
    if (last == "weight" && std::any_of(marked.begin(), marked.end(), [&](std::string_view prefix) {
          return std::string_view(info.name).substr(0, prefix.size()) == prefix;
        })) {
      scan.problem("comfy-scaled-fp8", info.name,
                   "scale_weight is missing, and the file is marked scaled_fp8", {tensor});
      continue;
    }
    if (last == "scaled_fp8") continue;
    QuantMatch match;
    match.layout = kUnscaled.id;
    match.module = info.name;
    match.weight = tensor;
    match.role = "weight";
    match.logical_shape = info.shape;
    match.bits = 8;
    scan.claim(std::move(match));
  }
}

void detect_fp8_scaled(LayoutScan& scan) {
  for (const std::string_view role : kScaleRoles) detect_scaled(scan, role);
  detect_unscaled(scan);
}

constexpr const QuantFormat* kFp8ScaledFormats[] = {&kFp8ScaledScaled, &kUnscaled};

}  // namespace

constexpr QuantFamily kFp8ScaledFamily = {"FP8", kFp8ScaledFormats, detect_fp8_scaled};

}  // namespace tftf
