// FBGEMM FP8: a scale per row, and Llama 4's experts, whose scales run along the last axis whatever their shape (spec
// quant-layouts-2 3).
#include <algorithm>

#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/scale_shape.h"

namespace tftf {
namespace {

constexpr std::string_view kFbgemmRole = "weight_scale";

Result<Weight> open_fbgemm(OpenContext& context, const QuantMatch& match) {
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  if (codes.shape.size() == 2) return open_fp8_scales(context, match, kFbgemmRole);
  const TensorRef* scales = match.find(kFbgemmRole);
  const TensorInfo* values = scales == nullptr ? nullptr : &context.checkpoint.info(*scales);
  const auto wanted =
      codes.shape.size() == 3 ? element_count({codes.shape[0], codes.shape[2]}) : std::nullopt;
  if (values == nullptr || !wanted || element_count(values->shape) != *wanted)
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has scales that are not one for each column of each expert");
  Fp8Grid grid{.code_dtype = codes.dtype, .scale_dtype = values->dtype};
  Fp8Geometry& g = grid.geometry;
  g.kind = Fp8Geometry::Kind::kColumn;
  g.matrices = codes.shape[0];
  g.rows = codes.shape[1];
  g.cols = codes.shape[2];
  g.block_rows = std::max<uint64_t>(g.rows, 1);
  g.col_stride = 1;
  g.grid_elements = g.cols;
  Result<Weight> weight = fp8_grid_weight(grid, codes.shape, match.weight, *scales);
  if (!weight) return weight_fault(ErrorCode::kRefusedUnsupported, context, match, weight.error().message);
  return weight;
}

constexpr QuantFormat kFbgemm = {
    .id = "fbgemm-fp8", .title = "FBGEMM FP8, a scale per row", .open = open_fbgemm};

// [E,1,last] or [E,last,1] for experts [E,in,last]; [N,1] or [N] for a matrix.
bool fits_fbgemm(const Shape& codes, const Shape& scales) {
  if (codes.size() == 2) return scales == Shape{codes[0], 1} || scales == Shape{codes[0]};
  return codes.size() == 3 &&
         (scales == Shape{codes[0], 1, codes[2]} || scales == Shape{codes[0], codes[2], 1});
}

void detect_fbgemm(LayoutScan& scan) {
  if (scan.config().method != "fbgemm_fp8" && scan.config().method != "fbgemm-fp8") return;
  for (TensorRef scale : scan.ending("_scale")) {
    const std::optional<TensorRef> weight = scan.find(scan.stem(scale, "_scale"));
    if (!weight || !is_fp8(scan.info(*weight).dtype) || !is_scale_float(scan.info(scale).dtype)) continue;
    const TensorInfo &codes = scan.info(*weight), &values = scan.info(scale);
    if (!fits_fbgemm(codes.shape, values.shape)) {
      scan.problem(kFbgemm.id, codes.name,
                   "its scales " + shape_text(values.shape) + " are not those of " + shape_text(codes.shape),
                   {weight, scale});
      continue;
    }
    QuantMatch match;
    match.layout = kFbgemm.id;
    match.module = codes.name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({kFbgemmRole, scale});
    const size_t dot = codes.name.rfind('.');
    if (dot != std::string::npos)
      for (const std::string_view role : {"input_scale", "input_scale_ub"})
        scan.add_companion(match, role, codes.name.substr(0, dot), "." + std::string(role));
    match.logical_dtype = native_dtype(values.dtype);
    match.logical_shape = codes.shape;
    match.bits = 8;
    scan.claim(std::move(match));
  }
}

constexpr const QuantFormat* kFbgemmFormats[] = {&kFbgemm};

}  // namespace

constexpr QuantFamily kFbgemmFamily = {"FBGEMM", kFbgemmFormats, detect_fbgemm};

}  // namespace tftf
