// FP8 with `_scale_inv` grids, and DeepSeek V4's `.scale` (spec other-quant-layouts 5).
#include <algorithm>

#include "quant/families.h"
#include "quant/fp8_block_encoder.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/scaled_codes.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

Result<Weight> open_fp8_block(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scales =
      match.layout == "fp8-block" ? match.find("weight_scale_inv") : match.find("scale");
  const auto refuse = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match, what);
  };
  const JsonValue* semantics = context.config.get("weight_scale_semantics");
  if (semantics != nullptr && semantics->is_string() && semantics->text == "inverse")
    return refuse(
        "has scales that do not multiply: the configuration says weight_scale_semantics \"inverse\"");
  if (scales == nullptr) return refuse("lacks its scales");
  const TensorInfo &codes = context.checkpoint.info(match.weight), &values = context.checkpoint.info(*scales);
  const auto grid = fp8_named_grid(codes, values, Fp8Block{match.block[0], match.block[1]});
  if (!grid) return refuse("has scales that do not multiply blocks of its weight");
  Result<Weight> weight = fp8_grid_weight(*grid, codes.shape, match.weight, *scales);
  if (!weight) return refuse(weight.error().message);
  return weight;
}

Result<Weight> open_v4_fp4(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE2m1, .group = 32}, "scale");
}

constexpr QuantFormat kBlock = {.id = "fp8-block",
                                .title = "FP8 with block scales (DeepSeek V3 and others)",
                                .open = open_fp8_block,
                                .encoder = &kFp8BlockEncoder,
                                .codes = &kFp8BlockCodes};
constexpr QuantFormat kV4Fp8 = {
    .id = "deepseek-v4-fp8", .title = "DeepSeek V4 FP8, E8M0 block scales", .open = open_fp8_block};
constexpr QuantFormat kV4Fp4 = {
    .id = "deepseek-v4-fp4", .title = "DeepSeek V4 FP4 experts", .open = open_v4_fp4};
constexpr std::string_view kScaleInv = "_scale_inv";
constexpr std::string_view kWeightScaleInv = ".weight_scale_inv";
constexpr std::string_view kFp8BlockScale = ".scale";

bool is_block_scale(DType dtype) {
  return is_scale_float(dtype) || dtype == DType::F64 || dtype == DType::F8_E8M0;
}

QuantMatch start_fp8_block(const LayoutScan& scan, const QuantFormat& format, TensorRef weight,
                           std::string_view role, TensorRef scale) {
  QuantMatch match;
  match.layout = format.id;
  match.module = scan.info(weight).name;
  match.weight = weight;
  match.role = "weight";
  match.companions.push_back({role, scale});
  match.logical_dtype = native_dtype(scan.info(scale).dtype);
  match.logical_shape = scan.info(weight).shape;
  match.bits = 8;
  return match;
}

// Blocks of the last two dimensions; leading ones (experts) have a grid each. A per-tensor or per-row scale
// under this name is left to the plain scaled FP8.
void detect_block(LayoutScan& scan, TensorRef scale) {
  std::optional<TensorRef> weight = scan.find(scan.stem(scale, kScaleInv));
  // "m.weight_scale_inv" beside a parameter "m".
  if (!weight && ends_with(scan.info(scale).name, kWeightScaleInv))
    weight = scan.find(scan.stem(scale, kWeightScaleInv));
  if (!weight || !is_fp8(scan.info(*weight).dtype) || !is_block_scale(scan.info(scale).dtype)) return;
  const Shape& shape = scan.info(*weight).shape;
  const Shape& grid = scan.info(scale).shape;
  if (shape.size() < 2 || grid.size() != shape.size()) return;
  if (grid.back() == 1 && grid[grid.size() - 2] == shape[shape.size() - 2] && shape[shape.size() - 2] > 1)
    return;
  const size_t rows = shape.size() - 2, columns = shape.size() - 1;
  auto broken = [&](std::string what) {
    scan.problem(kBlock.id, scan.info(*weight).name, std::move(what), {weight, scale});
  };
  if (!std::equal(shape.begin(), shape.end() - 2, grid.begin()))
    return broken("the scale grid " + shape_text(grid) + " is not one per expert of " + shape_text(shape));
  const std::optional<BlockSize> declared = declared_blocks(scan.config());
  std::optional<BlockSize> block =
      fit_blocks(shape[rows], shape[columns], grid[rows], grid[columns], declared);
  // A grid stored transposed, or one scale for each column; one for all where no blocks are declared.
  for (const uint64_t size : {128, 64, 256, 32}) {
    if (block) break;
    const BlockSize one = declared.value_or(BlockSize{size, size});
    const auto geometry = fp8_geometry(shape, grid, {one.rows, one.columns});
    if (geometry && (!declared || geometry->kind != Fp8Geometry::Kind::kTensor)) block = one;
  }
  if (!block)
    return broken("the scale grid " + shape_text(grid) +
                  (declared ? " is smaller than " + shape_text(shape) + " needs with blocks of " +
                                  std::to_string(declared->rows) + " x " + std::to_string(declared->columns)
                            : " fits " + shape_text(shape) + " with no block size"));
  QuantMatch match = start_fp8_block(scan, kBlock, *weight, "weight_scale_inv", scale);
  match.block[0] = block->rows;
  match.block[1] = block->columns;
  const std::string_view name = scan.info(*weight).name;
  const std::string_view module =
      name.substr(0, name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.'));
  for (std::string_view role : {"input_scale", "activation_scale"})
    if (!module.empty()) scan.add_companion(match, role, module, "." + std::string(role));
  scan.claim(std::move(match));
}

void detect_v4(LayoutScan& scan, TensorRef scale) {
  const std::string_view module = scan.stem(scale, kFp8BlockScale);
  const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
  if (!weight || scan.info(scale).dtype != DType::F8_E8M0) return;
  const TensorInfo& codes = scan.info(*weight);
  const Shape& grid = scan.info(scale).shape;
  const bool fp4 = codes.dtype == DType::I8 || codes.dtype == DType::U8;
  if (codes.shape.size() != 2 || grid.size() != 2 || (!fp4 && !is_fp8(codes.dtype))) return;
  auto broken = [&](const QuantFormat& format) {
    scan.problem(format.id, codes.name,
                 "scale " + shape_text(grid) + " does not fit the weight " + shape_text(codes.shape),
                 {weight, scale});
  };
  if (fp4) {
    const auto columns = checked_mul(codes.shape[1], 2);
    if (!columns || grid[0] != codes.shape[0] || grid[1] != ceil_div(*columns, 32)) return broken(kV4Fp4);
    QuantMatch match = start_fp8_block(scan, kV4Fp4, *weight, "scale", scale);
    match.logical_shape->back() = *columns;
    match.bits = 4;
    match.group_size = 32;
    return scan.claim(std::move(match));
  }
  const std::optional<BlockSize> block =
      fit_blocks(codes.shape[0], codes.shape[1], grid[0], grid[1], declared_blocks(scan.config()));
  if (!block) return broken(kV4Fp8);
  QuantMatch match = start_fp8_block(scan, kV4Fp8, *weight, "scale", scale);
  match.block[0] = block->rows;
  match.block[1] = block->columns;
  scan.claim(std::move(match));
}

void detect_fp8_block(LayoutScan& scan) {
  for (TensorRef scale : scan.ending(kScaleInv)) detect_block(scan, scale);
  for (TensorRef scale : scan.ending(kFp8BlockScale)) detect_v4(scan, scale);
}

constexpr const QuantFormat* kFp8BlockFormats[] = {&kBlock, &kV4Fp8, &kV4Fp4};

}  // namespace

constexpr QuantFamily kFp8BlockFamily = {"FP8 block", kFp8BlockFormats, detect_fp8_block};

}  // namespace tftf
