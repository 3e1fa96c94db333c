// gpt-oss MXFP4 experts: blocks of 16 bytes with one scale byte each (spec other-quant-layouts 6).
#include "quant/families.h"
#include "quant/gpt_oss_rows.h"
#include "quant/layout_scan.h"
#include "quant/scaled_codes.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

Result<Weight> open_gpt_oss(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scales = match.find("scales");
  const TensorInfo& stored = context.checkpoint.info(match.weight);
  if (scales == nullptr || stored.shape.size() != 4)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its scales");
  // With the original names the weight lies as its codes do.
  if (match.detail == nullptr)
    return open_scaled_codes(context, match, {.code = SmallCode::kE2m1, .group = 32}, "scales");
  const TransposedBlocks spec{stored.shape[0], stored.shape[1], stored.shape[2]};
  const auto blocks = element_count({spec.experts, spec.outputs, spec.blocks});
  if (!blocks || *blocks == 0 || spec.outputs > UINT32_MAX || !checked_mul(*blocks, 64) ||
      stored.bytes() != *blocks * 16 || context.checkpoint.info(*scales).bytes() != *blocks)
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has blocks " + shape_text(stored.shape) + ", which hold no elements or too many");
  return transposed_blocks_weight(spec, match.layout, match.weight, *scales);
}

constexpr QuantFormat kGptOssMxfp4 = {
    .id = "gpt-oss-mxfp4", .title = "gpt-oss MXFP4 experts", .open = open_gpt_oss};

void detect_names(LayoutScan& scan, std::string_view blocks_suffix, std::string_view scales_suffix,
                  bool transposed) {
  for (TensorRef blocks : scan.ending(blocks_suffix)) {
    const std::string_view module = scan.stem(blocks, blocks_suffix);
    const TensorInfo& stored = scan.info(blocks);
    const std::optional<TensorRef> scales = scan.sibling(module, scales_suffix);
    if (stored.dtype != DType::U8 || stored.shape.size() != 4 || stored.shape[3] != 16) continue;
    if (!scales) {
      // Without the rest of a gpt-oss checkpoint such a name proves nothing.
      if (scan.config().method == "mxfp4")
        scan.problem(kGptOssMxfp4.id, module, "its scales are missing", {blocks});
      continue;
    }
    if (scan.info(*scales).dtype != DType::U8 && scan.info(*scales).dtype != DType::F8_E8M0) continue;
    const Shape grid(stored.shape.begin(), stored.shape.end() - 1);
    if (scan.info(*scales).shape != grid) {
      scan.problem(kGptOssMxfp4.id, module,
                   "scales " + shape_text(scan.info(*scales).shape) + " do not give one byte per block of " +
                       shape_text(stored.shape),
                   {blocks, scales});
      continue;
    }
    QuantMatch match;
    match.layout = kGptOssMxfp4.id;
    match.module = std::string(module);
    match.weight = blocks;
    match.role = "blocks";
    match.companions.push_back({"scales", *scales});
    match.bits = 4;
    match.group_size = 32;
    const uint64_t columns = stored.shape[2] * 32;
    match.logical_shape = transposed ? Shape{stored.shape[0], columns, stored.shape[1]}
                                     : Shape{stored.shape[0], stored.shape[1], columns};
    if (transposed) match.detail = std::make_shared<const bool>(true);
    scan.claim(std::move(match));
  }
}

void detect_gpt_oss(LayoutScan& scan) {
  detect_names(scan, "_blocks", "_scales", true);
  detect_names(scan, ".blocks", ".scales", false);
}

constexpr const QuantFormat* kGptOssFormats[] = {&kGptOssMxfp4};

}  // namespace

constexpr QuantFamily kGptOssFamily = {"gpt-oss", kGptOssFormats, detect_gpt_oss};

}  // namespace tftf
