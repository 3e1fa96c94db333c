// NVIDIA ModelOpt, and the NVFP4 names that it shares with ComfyUI (spec other-quant-layouts 4, 7.3).
#include <algorithm>

#include "quant/comfy_codes.h"
#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/nvfp4.h"
#include "quant/scale_shape.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"
#include "tftf/quant/undecided.h"

namespace tftf {
namespace {

constexpr std::string_view kModeloptRole = "weight_scale";

Result<Weight> open_modelopt_fp8(OpenContext& context, const QuantMatch& match) {
  return open_fp8_scales(context, match, kModeloptRole);
}

Result<Weight> open_modelopt_int8(OpenContext& context, const QuantMatch& match) {
  return open_scaled_int8(context, match, kModeloptRole);
}

Result<Weight> open_int4_awq(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kInt4RowPairs, .group = match.group_size},
                           kModeloptRole);
}

Result<Weight> open_modelopt_mxfp4(OpenContext& context, const QuantMatch& match) {
  return open_scaled_codes(context, match, {.code = SmallCode::kE2m1, .group = 32}, kModeloptRole);
}

Result<Weight> open_modelopt_nvfp4(OpenContext& context, const QuantMatch& match) {
  return open_nvfp4(context, match, {});
}

struct Undecided {
  std::optional<float> multiplier{};  // that is none, probably
  std::string layout{};               // that the user has named
};

// What the user says decides.
Result<Weight> open_undecided(OpenContext& context, const QuantMatch& match) {
  const auto& undecided = *static_cast<const Undecided*>(match.detail.get());
  QuantMatch as = match;
  as.layout = undecided.layout;
  if (as.layout == "modelopt-nvfp4") return open_nvfp4(context, as, {});
  if (as.layout == "comfy-nvfp4") return open_nvfp4(context, as, {.high_first = true, .swizzled = true});
  if (as.layout == "ct-nvfp4-pack-quantized")
    return open_nvfp4(context, as, {.global = GlobalScale::kDivide});
  if (!undecided.multiplier) {
    return weight_fault(
        ErrorCode::kRefusedAmbiguous, context, match,
        "is NVFP4 of ModelOpt or of ComfyUI, and nothing tells which: they differ in the order "
        "of nibbles and of scales; --layout modelopt-nvfp4 or --layout comfy-nvfp4 decides");
  }
  return weight_fault(
      ErrorCode::kRefusedAmbiguous, context, match,
      "has a weight_scale_2 of " + json_float(*undecided.multiplier).dump() +
          ", where the multiplier that this name stands for is far below 1: it may be a "
          "divisor, as in compressed-tensors; --layout ct-nvfp4-pack-quantized divides by it, "
          "--layout modelopt-nvfp4 multiplies with it");
}

constexpr QuantFormat kModeloptNvfp4 = {.id = "modelopt-nvfp4",
                                        .title = "ModelOpt NVFP4",
                                        .open = open_modelopt_nvfp4,
                                        .codes = &kModeloptNvfp4Codes};
constexpr QuantFormat kAmbiguous = {.id = kUndecidedNvfp4,
                                    .title =
                                        "NVFP4 that `--layout` has to decide on: modelopt-nvfp4, "
                                        "comfy-nvfp4 or ct-nvfp4-pack-quantized",
                                    .open = open_undecided};
constexpr QuantFormat kInt4Awq = {
    .id = "modelopt-int4-awq", .title = "ModelOpt INT4 AWQ, packed along the rows", .open = open_int4_awq};
constexpr QuantFormat kModeloptMxfp4 = {
    .id = "modelopt-mxfp4", .title = "ModelOpt MXFP4", .open = open_modelopt_mxfp4};
constexpr QuantFormat kModeloptFp8 = {
    .id = "modelopt-fp8", .title = "ModelOpt FP8, one scale per tensor", .open = open_modelopt_fp8};
constexpr QuantFormat kFp8Channel = {
    .id = "modelopt-fp8-channel", .title = "ModelOpt FP8, one scale per row", .open = open_modelopt_fp8};
constexpr QuantFormat kFp8Block = {
    .id = "modelopt-fp8-block", .title = "ModelOpt FP8, block scales", .open = open_modelopt_fp8};
constexpr QuantFormat kModeloptInt8 = {
    .id = "modelopt-int8", .title = "ModelOpt INT8", .open = open_modelopt_int8};
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

bool is_modelopt(const QuantConfig& config) {
  if (config.method == "modelopt" || config.hf_quant != nullptr) return true;
  const JsonValue* producer = config.get("producer");
  const auto name = producer == nullptr ? std::nullopt : producer->string("name");
  return name && *name == "modelopt";
}

// Scales that are looked into before anything is planned: those of the first modules show what a producer does.
constexpr uint64_t kGlobalsSeen = 4096;

// The first of a module's global scales that is no multiplier below 1; nothing when all are or their values are not known
// (yet).
std::optional<float> unlikely_multiplier(LayoutScan& scan, TensorRef global, uint64_t& seen) {
  const TensorInfo& info = scan.info(global);
  const uint64_t count = element_count(info.shape).value_or(0);
  if (info.dtype != DType::F32 || seen >= kGlobalsSeen) return std::nullopt;
  seen += count;
  const std::optional<Bytes> bytes = scan.values().get(global);
  for (size_t i = 0; bytes && i + sizeof(float) <= bytes->size(); i += sizeof(float)) {
    const auto value = load_le<float>(bytes->data() + i);
    if (!(value < 1.0f)) return value;
  }
  return std::nullopt;
}

// Nibble order and scale order are in no header. ModelOpt's configuration says both; else only scales that
// are linear where the swizzled form would have another shape prove ModelOpt.
void detect_nvfp4(LayoutScan& scan, std::string_view module, TensorRef weight, TensorRef scale,
                  uint64_t& seen) {
  const Shape& codes = scan.info(weight).shape;
  const Shape& grid = scan.info(scale).shape;
  const bool modelopt = is_modelopt(scan.config());
  auto broken = [&](std::string what) {
    scan.problem(kModeloptNvfp4.id, scan.info(weight).name, std::move(what), {weight, scale});
  };
  const std::optional<TensorRef> global = scan.sibling(module, ".weight_scale_2");
  if (!global) {
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
  const bool proven = grid == linear && (modelopt || linear != swizzled);
  std::optional<float> doubt;
  if (grid == linear) doubt = unlikely_multiplier(scan, *global, seen);
  const bool decided = proven && !doubt;
  QuantMatch match = start_modelopt(scan, decided ? kModeloptNvfp4 : kAmbiguous, module, weight, scale);
  if (!decided) match.detail = std::make_shared<const Undecided>(Undecided{doubt, {}});
  match.logical_shape->back() = columns;
  match.bits = 4;
  match.group_size = 16;
  scan.claim(std::move(match));
}

void detect_bytes(LayoutScan& scan, std::string_view module, TensorRef weight, TensorRef scale,
                  uint64_t& seen) {
  const Shape& codes = scan.info(weight).shape;
  const Shape& grid = scan.info(scale).shape;
  const DType dtype = scan.info(scale).dtype;
  if (dtype == DType::F8_E4M3) return detect_nvfp4(scan, module, weight, scale, seen);
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

// Of the key-value cache: they mean nothing once the weights are floats.
void claim_cache_scales(LayoutScan& scan) {
  const std::string_view* found = nullptr;
  for (const QuantFormat* format :
       {&kModeloptFp8, &kFp8Channel, &kFp8Block, &kModeloptInt8, &kInt4Awq, &kModeloptNvfp4, &kModeloptMxfp4})
    if (found == nullptr && scan.has_found(format->id)) found = &format->id;
  if (found == nullptr) return;
  for (const std::string_view suffix : {".k_scale", ".v_scale"})
    for (const TensorRef scale : scan.ending(suffix))
      if (is_scalar(scan.info(scale).shape) && is_scale_float(scan.info(scale).dtype))
        scan.claim_extra(*found, scale);
}

void detect_modelopt(LayoutScan& scan) {
  const bool modelopt = is_modelopt(scan.config());
  uint64_t seen = 0;
  for (TensorRef scale : scan.ending(kModeloptScale)) {
    const std::string_view module = scan.stem(scale, kModeloptScale);
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight) continue;
    const DType codes = scan.info(*weight).dtype;
    if (codes == DType::U8)
      detect_bytes(scan, module, *weight, scale, seen);
    else if (modelopt && (codes == DType::I8 || is_fp8(codes)))
      detect_eight_bits(scan, module, *weight, scale);
  }
  if (modelopt) claim_cache_scales(scan);
}

constexpr const QuantFormat* kModeloptFormats[] = {&kModeloptFp8,   &kFp8Channel, &kFp8Block,
                                                   &kModeloptInt8,  &kInt4Awq,    &kModeloptNvfp4,
                                                   &kModeloptMxfp4, &kAmbiguous};

}  // namespace

QuantMatch decided(const QuantMatch& match, const std::string& layout) {
  QuantMatch as = match;
  Undecided undecided = *static_cast<const Undecided*>(match.detail.get());
  undecided.layout = layout;
  as.detail = std::make_shared<const Undecided>(std::move(undecided));
  return as;
}

constexpr QuantFamily kModeloptFamily = {"ModelOpt", kModeloptFormats, detect_modelopt};

}  // namespace tftf
