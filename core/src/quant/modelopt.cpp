// NVIDIA ModelOpt, and the NVFP4 names that it shares with ComfyUI (spec other-quant-layouts 4, 7.3).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/nvfp4.h"
#include "quant/scale_shape.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

Result<Weight> open_modelopt_nvfp4(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scales = match.find("weight_scale");
  const TensorRef* global = match.find("weight_scale_2");
  const auto fault = [&](ErrorCode code, const std::string& what) {
    return weight_fault(code, context, match, what);
  };
  if (scales == nullptr || global == nullptr || !match.logical_shape || match.logical_shape->size() < 2)
    return fault(ErrorCode::kRefusedMissing, "lacks a scale");
  if (match.find("pre_quant_scale") != nullptr)
    return fault(ErrorCode::kRefusedUnsupported,
                 "has a pre_quant_scale, which is not folded into NVFP4 weights");
  const Shape& shape = *match.logical_shape;
  Shape grid = shape;
  grid.back() = ceil_div(shape.back(), 16);
  const TensorInfo &block = context.checkpoint.info(*scales), &second = context.checkpoint.info(*global);
  if (block.shape != grid)
    return fault(ErrorCode::kRefusedShape,
                 "has scales of shape " + shape_text(block.shape) + ", not " + shape_text(grid));
  uint64_t matrices = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) matrices *= shape[i];
  const uint64_t rows = shape[shape.size() - 2], count = element_count(second.shape).value_or(0);
  if (second.dtype != DType::F32 || (count != 1 && count != matrices)) {
    return fault(ErrorCode::kRefusedShape, "has a weight_scale_2 that is " +
                                               std::string(dtype_name(second.dtype)) + " " +
                                               shape_text(second.shape) + ", not one F32 per matrix");
  }
  const uint64_t all = matrices * rows;
  return nvfp4_weight({.rows = all,
                       .columns = shape.back(),
                       .rows_per_scale = std::max<uint64_t>(1, count == 1 ? all : rows)},
                      shape, match.weight, *scales, *global);
}

constexpr QuantFormat kModeloptNvfp4 = {
    .id = "modelopt-nvfp4", .title = "ModelOpt NVFP4", .open = open_modelopt_nvfp4};
constexpr QuantFormat kAmbiguous = {
    "nvfp4-ambiguous", "NVFP4 of ModelOpt or ComfyUI: --layout modelopt-nvfp4 or comfy-nvfp4 decides"};
constexpr QuantFormat kInt4Awq = {"modelopt-int4-awq", "ModelOpt INT4 AWQ, packed along the rows"};
constexpr QuantFormat kModeloptMxfp4 = {"modelopt-mxfp4", "ModelOpt MXFP4"};
constexpr QuantFormat kModeloptFp8 = {"modelopt-fp8", "ModelOpt FP8, one scale per tensor"};
constexpr QuantFormat kFp8Channel = {"modelopt-fp8-channel", "ModelOpt FP8, one scale per row"};
constexpr QuantFormat kFp8Block = {"modelopt-fp8-block", "ModelOpt FP8, block scales"};
constexpr QuantFormat kModeloptInt8 = {"modelopt-int8", "ModelOpt INT8"};
constexpr std::string_view kModeloptScale = ".weight_scale";

QuantMatch start_modelopt(const LayoutScan& scan, const QuantFormat& format, std::string_view module,
                          TensorRef weight, TensorRef scale) {
  QuantMatch match;
  match.layout = format.id;
  match.module = scan.info(weight).name;
  match.weight = weight;
  match.role = "weight";
  match.companions.push_back({"weight_scale", scale});
  for (std::string_view role : {"weight_scale_2", "input_scale", "pre_quant_scale"})
    scan.add_companion(match, role, module, "." + std::string(role));
  match.logical_dtype = native_dtype(scan.info(scale).dtype);
  match.logical_shape = scan.info(weight).shape;
  return match;
}

// Nibble order and scale order are in no header. ModelOpt's configuration says both; else only scales that
// are linear where the swizzled form would have another shape prove ModelOpt.
void detect_nvfp4(LayoutScan& scan, std::string_view module, TensorRef weight, TensorRef scale) {
  const Shape& codes = scan.info(weight).shape;
  const Shape& grid = scan.info(scale).shape;
  const bool modelopt = scan.config().method == "modelopt";
  auto broken = [&](std::string what) {
    scan.problem(kModeloptNvfp4.id, scan.info(weight).name, std::move(what), {weight, scale});
  };
  if (!scan.sibling(module, ".weight_scale_2")) {
    if (modelopt) broken("weight_scale_2 is missing");
    return;
  }
  if (codes.size() < 2 || codes.back() > UINT64_MAX / 2)
    return broken("its rank is " + std::to_string(codes.size()));
  const uint64_t rows = codes[codes.size() - 2], columns = codes.back() * 2;
  Shape linear = codes;
  linear.back() = ceil_div(columns, 16);
  const Shape swizzled = {ceil_div(rows, 128) * 128, ceil_div(columns, 64) * 4};
  if (grid != linear && grid != swizzled)
    return broken("weight_scale " + shape_text(grid) + " is neither the linear " + shape_text(linear) +
                  " nor the swizzled " + shape_text(swizzled));
  if (modelopt && grid != linear)
    return broken("weight_scale " + shape_text(grid) + " is swizzled; ModelOpt's is " + shape_text(linear));
  const bool proven = grid == linear && linear != swizzled;
  QuantMatch match =
      start_modelopt(scan, modelopt || proven ? kModeloptNvfp4 : kAmbiguous, module, weight, scale);
  match.logical_shape->back() = columns;
  match.bits = 4;
  match.group_size = 16;
  scan.claim(std::move(match));
}

void detect_bytes(LayoutScan& scan, std::string_view module, TensorRef weight, TensorRef scale) {
  const Shape& codes = scan.info(weight).shape;
  const Shape& grid = scan.info(scale).shape;
  const DType dtype = scan.info(scale).dtype;
  if (dtype == DType::F8_E4M3) return detect_nvfp4(scan, module, weight, scale);
  if (codes.size() < 2 || grid.size() != codes.size() || codes.back() > UINT64_MAX / 2) return;
  if (dtype == DType::U8 || dtype == DType::F8_E8M0) {
    Shape wanted = codes;
    wanted.back() = ceil_div(codes.back() * 2, 32);
    if (grid != wanted) return;
    QuantMatch match = start_modelopt(scan, kModeloptMxfp4, module, weight, scale);
    match.logical_shape->back() *= 2;
    match.bits = 4;
    match.group_size = 32;
    return scan.claim(std::move(match));
  }
  // INT4 AWQ packs two rows into one: the scales have twice as many.
  const size_t rows = codes.size() - 2;
  const bool awq = is_scale_float(dtype) && codes[rows] <= UINT64_MAX / 2 && grid[rows] == codes[rows] * 2 &&
                   grid.back() > 0 && codes.back() % grid.back() == 0 && codes.back() / grid.back() >= 16 &&
                   std::equal(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(rows), grid.begin());
  if (!awq) return;
  QuantMatch match = start_modelopt(scan, kInt4Awq, module, weight, scale);
  (*match.logical_shape)[rows] *= 2;
  match.bits = 4;
  match.group_size = codes.back() / grid.back();
  scan.claim(std::move(match));
}

void detect_eight_bits(LayoutScan& scan, std::string_view module, TensorRef weight, TensorRef scale) {
  if (!is_floating(scan.info(scale).dtype)) return;
  const Shape& codes = scan.info(weight).shape;
  const Shape& grid = scan.info(scale).shape;
  const bool int8 = scan.info(weight).dtype == DType::I8;
  const ScaleShape kind = scale_shape(codes, grid);
  const QuantFormat* format = int8                           ? &kModeloptInt8
                              : kind == ScaleShape::kTensor  ? &kModeloptFp8
                              : kind == ScaleShape::kChannel ? &kFp8Channel
                                                             : &kFp8Block;
  QuantMatch match = start_modelopt(scan, *format, module, weight, scale);
  match.bits = 8;
  if (kind == ScaleShape::kOther) {
    const std::optional<BlockSize> block = block_of(codes, grid, declared_blocks(scan.config()));
    if (!block || int8)
      return scan.problem(
          format->id, scan.info(weight).name,
          "weight_scale " + shape_text(grid) + " does not fit the weight " + shape_text(codes),
          {weight, scale});
    match.block[0] = block->rows;
    match.block[1] = block->columns;
  }
  scan.claim(std::move(match));
}

void detect_modelopt(LayoutScan& scan) {
  const bool modelopt = scan.config().method == "modelopt";
  for (TensorRef scale : scan.ending(kModeloptScale)) {
    const std::string_view module = scan.stem(scale, kModeloptScale);
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight) continue;
    const DType codes = scan.info(*weight).dtype;
    if (codes == DType::U8)
      detect_bytes(scan, module, *weight, scale);
    else if (modelopt && (codes == DType::I8 || is_fp8(codes)))
      detect_eight_bits(scan, module, *weight, scale);
  }
}

constexpr const QuantFormat* kModeloptFormats[] = {&kModeloptFp8,   &kFp8Channel, &kFp8Block,
                                                   &kModeloptInt8,  &kInt4Awq,    &kModeloptNvfp4,
                                                   &kModeloptMxfp4, &kAmbiguous};

}  // namespace

constexpr QuantFamily kModeloptFamily = {"ModelOpt", kModeloptFormats, detect_modelopt};

}  // namespace tftf
