// gpt-oss MXFP4 experts: blocks of 16 bytes with one scale byte each (spec other-quant-layouts 6).
#include "quant/families.h"
#include "quant/layout_scan.h"

namespace tftf {
namespace {

constexpr QuantFormat kGptOssMxfp4 = {"gpt-oss-mxfp4", "gpt-oss MXFP4 experts"};

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
