#include "tftf/quant/registry.h"

#include <algorithm>
#include <vector>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/quant/code_form.h"
#include "tftf/quant/weight.h"

namespace tftf {
namespace {

// The order of detection (spec other-quant-layouts 10, quant-layouts-2 12): those that name themselves first, then by names that
// belong to one producer, then by shape.
constexpr const QuantFamily* kFamilies[] = {
    &kQuarkFamily,    &kFbgemmFamily,    &kAutoroundFamily,
    &kTorchaoFamily,  &kComfyFamily,     &kComfyScaledFamily,
    &kColibriFamily,  &kGemmaFamily,     &kBitnetFamily,
    &kForeignFamily,  &kHqqFamily,       &kAqlmFamily,
    &kVptqFamily,     &kQuantoFamily,    &kBitsandbytesFamily,
    &kQweightFamily,  &kMxFamily,        &kCompressedTensorsFamily,
    &kGptOssFamily,   &kMlxFamily,       &kFp8BlockFamily,
    &kModeloptFamily, &kFp8ScaledFamily,
};

// A configuration that names a method over integer or FP8 weights that no layout has claimed: it is the only key to them,
// and whoever copied the codes and took it away would leave noise (spec quant-layouts-2 12).
void note_unread_codes(LayoutScan& scan) {
  if (scan.config().method.empty() || scan.has_matches()) return;
  for (const TensorRef tensor : scan.checkpoint().order) {
    const TensorInfo& info = scan.info(tensor);
    if (!scan.is_free(tensor) || !looks_like_codes(info)) continue;
    scan.problem(kUnreadLayout, info.name,
                 "it is " + std::string(dtype_name(info.dtype)) + " " + shape_text(info.shape) + ", " +
                     scan.config().method_place + " names the method " + quote_name(scan.config().method) +
                     ", and nothing of a layout that is known is found",
                 {tensor});
    return;
  }
}

// Opening relies on what a sound header guarantees.
bool is_sound(const Checkpoint& checkpoint, TensorRef tensor) {
  const TensorInfo& info = checkpoint.info(tensor);
  const auto elements = element_count(info.shape);
  return elements && byte_count(*elements, info.dtype) == info.bytes();
}

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
  if (id == "comfy-quant") id = "comfy-fp8";
  for (const QuantFormat* format : quant_formats())
    if (format->id == id) return format;
  return nullptr;
}

bool looks_like_codes(const TensorInfo& info) {
  const bool integer = !is_floating(info.dtype) && info.dtype != DType::BOOL && info.dtype != DType::C64;
  return info.shape.size() >= 2 && (integer || is_fp8(info.dtype)) &&
         (info.name == "weight" || ends_with(info.name, ".weight"));
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
  note_unread_codes(scan);
  return scan.take();
}

std::vector<QuantProblem> geometry_problems(const Checkpoint& checkpoint, const LayoutReport& report) {
  std::vector<QuantProblem> problems;
  OpenContext context{checkpoint, read_quant_config(checkpoint)};
  for (const QuantFinding& finding : report.findings) {
    const QuantFormat* format = find_quant_format(finding.layout);
    if (format == nullptr || !format->read()) continue;
    for (const QuantMatch& match : finding.matches) {
      if (!match.logical_shape) continue;  // not told by what is known so far
      const bool sound =
          is_sound(checkpoint, match.weight) &&
          std::all_of(match.companions.begin(), match.companions.end(),
                      [&](const QuantCompanion& one) { return is_sound(checkpoint, one.tensor); });
      if (!sound) continue;
      const Result<Weight> weight = format->open(context, match);
      if (weight || weight.error().code != ErrorCode::kRefusedShape) continue;
      // "Module NAME of FILE (LAYOUT) WHAT."
      std::string what = weight.error().message;
      const std::string behind = "(" + std::string(match.layout) + ") ";
      if (const size_t at = what.find(behind); at != std::string::npos) what.erase(0, at + behind.size());
      if (!what.empty() && what.back() == '.') what.pop_back();
      problems.push_back({match.layout, match.module, std::move(what)});
    }
  }
  return problems;
}

}  // namespace tftf
