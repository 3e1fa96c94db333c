#include "tftf/quant/registry.h"

#include <vector>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/quant/code_form.h"

namespace tftf {
namespace {

// The order of detection (spec other-quant-layouts 10): those that name themselves first, then by names that
// belong to one producer, then by shape.
constexpr const QuantFamily* kFamilies[] = {
    &kTorchaoFamily,      &kComfyFamily,    &kComfyScaledFamily,       &kColibriFamily,
    &kBitsandbytesFamily, &kQweightFamily,  &kCompressedTensorsFamily, &kGptOssFamily,
    &kMlxFamily,          &kFp8BlockFamily, &kModeloptFamily,          &kFp8ScaledFamily,
    &kForeignFamily,
};

}  // namespace

std::span<const QuantFamily* const> quant_families() { return kFamilies; }

std::span<const QuantFormat* const> quant_formats() {
  static const std::vector<const QuantFormat*> formats = [] {
    std::vector<const QuantFormat*> out;
    for (const QuantFamily* family : kFamilies)
      out.insert(out.end(), family->formats.begin(), family->formats.end());
    return out;
  }();
  return formats;
}

const QuantFormat* find_quant_format(std::string_view id) {
  if (id == "colibri-fp8") id = "colibri-fp8-e4m3-b128";
  if (id == "gptq") id = "gptq-v1";
  if (id == "awq") id = "awq-gemm";
  for (const QuantFormat* format : quant_formats())
    if (format->id == id) return format;
  return nullptr;
}

bool can_repack(const QuantFormat& from, const QuantFormat& to) {
  return &from != &to && from.codes != nullptr && to.codes != nullptr && from.codes->codes != nullptr &&
         to.codes->pack != nullptr && from.codes->kind == to.codes->kind;
}

std::vector<const QuantFormat*> repack_targets(const QuantFormat& from) {
  std::vector<const QuantFormat*> targets;
  for (const QuantFormat* to : quant_formats())
    if (can_repack(from, *to)) targets.push_back(to);
  return targets;
}

LayoutReport detect_layouts(const Checkpoint& checkpoint, SmallValues& values) {
  LayoutScan scan(checkpoint, values);
  for (const QuantFamily* family : kFamilies) family->detect(scan);
  return scan.take();
}

}  // namespace tftf
