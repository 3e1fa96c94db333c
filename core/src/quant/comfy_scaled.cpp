// ComfyUI's older scaled FP8: a `scaled_fp8` marker and `scale_weight` tensors (spec other-quant-layouts
// 7.1).
#include "quant/comfy_codes.h"
#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/scale_shape.h"

namespace tftf {
namespace {

Result<Weight> open_comfy_scaled(OpenContext& context, const QuantMatch& match) {
  return open_fp8_scales(context, match, "scale_weight");
}

constexpr QuantFormat kComfyScaledScaled = {.id = "comfy-scaled-fp8",
                                            .title = "ComfyUI scaled FP8 (scale_weight)",
                                            .open = open_comfy_scaled,
                                            .codes = &kComfyScaledFp8Codes};
constexpr std::string_view kMarker = "scaled_fp8";
constexpr std::string_view kComfyScaledScale = ".scale_weight";
constexpr std::string_view kInput = ".scale_input";

std::optional<TensorRef> find_marker(const LayoutScan& scan) {
  for (TensorRef tensor : scan.checkpoint().order) {
    const std::string_view name = scan.info(tensor).name;
    if (scan.is_free(tensor) && name.size() >= kMarker.size() &&
        name.substr(name.size() - kMarker.size()) == kMarker)
      return tensor;
  }
  return std::nullopt;
}

void detect_comfy_scaled(LayoutScan& scan) {
  const std::optional<TensorRef> marker = find_marker(scan);
  const bool full_precision = marker && element_count(scan.info(*marker).shape) == 2;
  const auto detail = std::make_shared<const ComfyScaledDetail>(ComfyScaledDetail{full_precision});
  bool found = false;
  std::vector<TensorRef> dummies;
  for (TensorRef scale : scan.ending(kComfyScaledScale)) {
    const std::string_view module = scan.stem(scale, kComfyScaledScale);
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight || !is_floating(scan.info(scale).dtype)) continue;
    // The weight's dtype decides: layers of high precision can carry a dummy scale.
    if (!is_fp8(scan.info(*weight).dtype)) {
      if (marker) {
        dummies.push_back(scale);
        if (const auto input = scan.sibling(module, kInput)) dummies.push_back(*input);
      }
      continue;
    }
    QuantMatch match;
    match.layout = kComfyScaledScaled.id;
    match.module = scan.info(*weight).name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({"scale_weight", scale});
    scan.add_companion(match, "scale_input", module, kInput);
    match.logical_dtype = native_dtype(scan.info(scale).dtype);
    match.logical_shape = scan.info(*weight).shape;
    match.bits = 8;
    if (const auto block = block_of(scan.info(*weight).shape, scan.info(scale).shape, std::nullopt)) {
      match.block[0] = block->rows;
      match.block[1] = block->columns;
    }
    match.detail = detail;
    scan.claim(std::move(match));
    found = true;
  }
  if (!marker || !found) return;
  scan.claim_extra(kComfyScaledScaled.id, *marker);
  for (TensorRef dummy : dummies) scan.claim_extra(kComfyScaledScaled.id, dummy);
}

constexpr const QuantFormat* kComfyScaledFormats[] = {&kComfyScaledScaled};

}  // namespace

constexpr QuantFamily kComfyScaledFamily = {"ComfyUI scaled FP8", kComfyScaledFormats, detect_comfy_scaled};

}  // namespace tftf
