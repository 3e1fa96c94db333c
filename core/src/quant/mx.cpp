// MXFP8: FP8 codes with one exponent for 32 of a row (spec quant-layouts-2 2). The names are those of FP8 block scales; the
// dtype of the scales tells them apart.
#include <algorithm>

#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr uint64_t kMxGroup = 32;

Result<Weight> open_mxfp8(OpenContext& context, const QuantMatch& match) {
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  const TensorRef scales = match.companions.front().tensor;
  TensorInfo exponents = context.checkpoint.info(scales);
  exponents.dtype = DType::F8_E8M0;
  const auto grid = fp8_blocks(codes, exponents, {1, kMxGroup});
  if (!grid) {
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has exponents " + shape_text(exponents.shape) + ", not one for every 32 codes of " +
                            shape_text(codes.shape));
  }
  Result<Weight> weight = fp8_grid_weight(*grid, codes.shape, match.weight, scales);
  if (!weight) return weight_fault(ErrorCode::kRefusedUnsupported, context, match, weight.error().message);
  return weight;
}

constexpr QuantFormat kMxfp8 = {
    .id = "mxfp8", .title = "MXFP8, an exponent for 32 codes of a row", .open = open_mxfp8};
constexpr QuantFormat kModeloptMxfp8 = {
    .id = "modelopt-mxfp8", .title = "ModelOpt MXFP8", .open = open_mxfp8};

// Exponents have one dimension and length for each of the codes', the last divided by 32.
bool fits_exponents(const Shape& codes, const Shape& exponents) {
  return codes.size() >= 2 && exponents.size() == codes.size() &&
         std::equal(codes.begin(), codes.end() - 1, exponents.begin()) && codes.back() % kMxGroup == 0 &&
         exponents.back() == codes.back() / kMxGroup;
}

void detect_exponents(LayoutScan& scan, std::string_view suffix, std::string_view role,
                      const QuantFormat& format) {
  for (TensorRef scale : scan.ending(suffix)) {
    const TensorInfo& exponents = scan.info(scale);
    if (exponents.dtype != DType::U8 && exponents.dtype != DType::F8_E8M0) continue;
    // "m.weight_scale…" of "m.weight", "x_scale_inv" of a stack "x".
    const std::optional<TensorRef> weight = scan.find(scan.stem(scale, suffix));
    if (!weight) continue;
    const TensorInfo& codes = scan.info(*weight);
    if (codes.dtype != DType::F8_E4M3 && codes.dtype != DType::F8_E5M2) continue;
    if (!fits_exponents(codes.shape, exponents.shape)) {
      if (exponents.dtype == DType::F8_E8M0) continue;  // scales of blocks
      scan.problem(format.id, codes.name,
                   std::string(role) + " is U8 " + shape_text(exponents.shape) +
                       ": exponents, but not one for every 32 codes of " + shape_text(codes.shape),
                   {weight, scale});
      continue;
    }
    QuantMatch match;
    match.layout = format.id;
    match.module = codes.name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({role, scale});
    const size_t dot = codes.name.rfind('.');
    if (dot != std::string::npos)
      scan.add_companion(match, "input_scale", codes.name.substr(0, dot), ".input_scale");
    match.logical_shape = codes.shape;
    match.bits = 8;
    match.group_size = kMxGroup;
    scan.claim(std::move(match));
  }
}

void detect_mx(LayoutScan& scan) {
  const std::string& method = scan.config().method;
  detect_exponents(scan, "_scale_inv", "weight_scale_inv", kMxfp8);
  // These have layouts of their own with the same names.
  if (method == "compressed-tensors" || method.find("auto-round") != std::string::npos) return;
  detect_exponents(scan, "_scale", "weight_scale", method == "modelopt" ? kModeloptMxfp8 : kMxfp8);
}

constexpr const QuantFormat* kMxFormats[] = {&kMxfp8, &kModeloptMxfp8};

}  // namespace

constexpr QuantFamily kMxFamily = {"MXFP8", kMxFormats, detect_mx};

}  // namespace tftf
