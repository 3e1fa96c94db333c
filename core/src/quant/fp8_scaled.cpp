// FP8 whose producer nobody names: with a `weight_scale`, or with no scale at all (spec other-quant-layouts
// 10, steps 12 and 13).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/scale_shape.h"

namespace tftf {
namespace {

constexpr QuantFormat kFp8ScaledScaled = {"fp8-scaled", "FP8 with a weight_scale, producer not named"};
constexpr QuantFormat kUnscaled = {"fp8-unscaled", "FP8 without scales (a plain cast)"};

void detect_scaled(LayoutScan& scan, std::string_view suffix, std::string_view role) {
  for (TensorRef scale : scan.ending(suffix)) {
    const std::string_view module = scan.stem(scale, suffix);
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight || !is_scale_float(scan.info(scale).dtype)) continue;
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
    for (std::string_view extra : {"input_scale", "activation_scale"})
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

// Some tensor beside it may be its scale, in a spelling that no family claims.
bool has_scale_beside(const LayoutScan& scan, std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string module(name.substr(0, dot == std::string_view::npos ? 0 : dot));
  const std::string whole(name);
  for (const std::string& candidate :
       {whole + "_scale", whole + "_scale_inv", whole + ".scale", whole + "_scales", module + ".scale",
        module + ".scales", module + ".weight_scale", module + ".weight_scale_inv", module + ".scale_weight"})
    if (scan.checkpoint().find(candidate)) return true;
  constexpr std::string_view kQdata = "qdata";
  return whole.size() > kQdata.size() && whole.substr(whole.size() - kQdata.size()) == kQdata;
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
  for (TensorRef tensor : scan.checkpoint().order) {
    const TensorInfo& info = scan.info(tensor);
    if (!scan.is_free(tensor) || !is_fp8(info.dtype)) continue;
    const std::string_view last = std::string_view(info.name).substr(info.name.rfind('.') + 1);
    if (last.find("scale") != std::string_view::npos || has_scale_beside(scan, info.name)) continue;
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
  detect_scaled(scan, ".weight_scale", "weight_scale");
  detect_scaled(scan, ".weight_scale_inv", "weight_scale_inv");
  detect_unscaled(scan);
}

constexpr const QuantFormat* kFp8ScaledFormats[] = {&kFp8ScaledScaled, &kUnscaled};

}  // namespace

constexpr QuantFamily kFp8ScaledFamily = {"FP8", kFp8ScaledFormats, detect_fp8_scaled};

}  // namespace tftf
