// ComfyUI's per-layer descriptions: `<m>.comfy_quant` tensors or `_quantization_metadata` (spec
// other-quant-layouts 7.2).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr QuantFormat kComfyFp8 = {"comfy-fp8", "ComfyUI FP8 with a weight_scale"};
constexpr QuantFormat kComfyMxfp8 = {"comfy-mxfp8", "ComfyUI MXFP8, swizzled scales"};
constexpr QuantFormat kComfyNvfp4 = {"comfy-nvfp4", "ComfyUI NVFP4, high nibble first, swizzled scales"};
constexpr QuantFormat kComfyInt8 = {"comfy-int8", "ComfyUI INT8, with or without rotation"};
constexpr QuantFormat kConvrot = {"comfy-convrot-w4a4", "ComfyUI INT4 in a rotated basis"};
constexpr QuantFormat kW4a8 = {"comfy-w4a8", "ComfyUI W4A8 on an int8 grid"};
constexpr QuantFormat kAwq = {"comfy-awq-w4a16", "ComfyUI AWQ W4A16"};
constexpr QuantFormat kSvdquant = {"comfy-svdquant", "SVDQuant W4A4", true};

// What a format wants beside its weight; every listed tensor is required unless marked.
struct Part {
  std::string_view suffix;
  bool optional;
};
struct Layer {
  std::string_view name;  // as in the JSON
  const QuantFormat* format;
  uint32_t bits;
  bool two_per_byte;
  std::vector<DType> weights;
  std::vector<Part> parts;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> all = {
      {"float8_e4m3fn", &kComfyFp8, 8, false, {DType::F8_E4M3}, {{"weight_scale", false}}},
      {"float8_e5m2", &kComfyFp8, 8, false, {DType::F8_E5M2}, {{"weight_scale", false}}},
      {"float8_e4m3fn_rowwise", &kComfyFp8, 8, false, {DType::F8_E4M3}, {{"weight_scale", false}}},
      {"float8_e4m3fn_blockwise", &kComfyFp8, 8, false, {DType::F8_E4M3}, {{"weight_scale", false}}},
      {"mxfp8", &kComfyMxfp8, 8, false, {DType::F8_E4M3, DType::F8_E5M2}, {{"weight_scale", false}}},
      {"nvfp4", &kComfyNvfp4, 4, true, {DType::U8}, {{"weight_scale", false}, {"weight_scale_2", false}}},
      {"int8_tensorwise", &kComfyInt8, 8, false, {DType::I8}, {{"weight_scale", false}}},
      {"int8_blockwise", &kComfyInt8, 8, false, {DType::I8}, {{"weight_scale", false}}},
      {"convrot_w4a4", &kConvrot, 4, true, {DType::I8}, {{"weight_scale", false}}},
      {"asym_w4a8_int8",
       &kW4a8,
       4,
       true,
       {DType::I8},
       {{"weight_s_rel", false}, {"weight_s_channel", false}, {"weight_codebook", true}}},
      {"awq_w4a16", &kAwq, 4, true, {DType::I8}, {{"weight_scale", false}, {"weight_zeros", false}}},
      {"svdquant_w4a4",
       &kSvdquant,
       4,
       false,
       {DType::I8, DType::U8, DType::I32},
       {{"wscales", true},
        {"proj_down", true},
        {"proj_up", true},
        {"smooth_factor", true},
        {"weight_scale", true}}},
  };
  return all;
}

constexpr std::string_view kDescription = ".comfy_quant";
// Read with any format; activations or a pre-scale that is folded.
constexpr std::string_view kCommon[] = {"input_scale", "pre_quant_scale"};

// The options of a layer; older files nest them under "params".
const JsonValue* option(const JsonValue& json, std::string_view key) {
  if (const JsonValue* value = json.get(key)) return value;
  const JsonValue* params = json.get("params");
  return params ? params->get(key) : nullptr;
}

void detect_layer(LayoutScan& scan, std::string_view module, const JsonValue& json,
                  std::optional<TensorRef> description) {
  const JsonValue* format = json.is_string() ? &json : option(json, "format");
  const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
  const std::string name = std::string(module) + ".weight";
  if (!format || !format->is_string())
    return scan.problem("comfy_quant", name, "its description names no format", {weight, description});
  const Layer* layer = nullptr;
  for (const Layer& one : layers())
    if (one.name == format->text) layer = &one;
  if (!layer)
    return scan.problem("comfy_quant", name, "the format " + quote_name(format->text) + " is not known",
                        {weight, description});
  if (!weight) return scan.problem(layer->format->id, name, "it is described but not stored", {description});
  const TensorInfo& stored = scan.info(*weight);
  if (std::find(layer->weights.begin(), layer->weights.end(), stored.dtype) == layer->weights.end())
    return scan.problem(
        layer->format->id, name,
        "its dtype " + std::string(dtype_name(stored.dtype)) + " is not that of " + std::string(layer->name),
        {weight, description});
  QuantMatch match;
  match.layout = layer->format->id;
  match.module = name;
  match.weight = *weight;
  match.role = "weight";
  match.bits = layer->bits;
  for (const Part& part : layer->parts) {
    const std::string suffix = "." + std::string(part.suffix);
    if (!scan.add_companion(match, part.suffix, module, suffix) && !part.optional)
      return scan.problem(layer->format->id, name, std::string(part.suffix) + " is missing",
                          {weight, description});
  }
  for (std::string_view part : kCommon) scan.add_companion(match, part, module, "." + std::string(part));
  if (description) match.companions.push_back({"comfy_quant", *description});
  const TensorRef* scale = match.find("weight_scale");
  match.logical_dtype = native_dtype(scale ? scan.info(*scale).dtype : DType::BF16);
  if (layer->format == &kW4a8) match.logical_dtype = DType::F32;
  if (layer->format == &kComfyNvfp4 || layer->format == &kComfyMxfp8) {
    match.logical_dtype = DType::BF16;
    match.group_size = layer->format == &kComfyNvfp4 ? 16 : 32;
  }
  if (layer->format != &kSvdquant && !stored.shape.empty()) {
    match.logical_shape = stored.shape;
    if (layer->two_per_byte) match.logical_shape->back() *= 2;
  }
  scan.claim(std::move(match));
}

// `_quantization_metadata` may leave the model's prefix out.
std::string stored_module(const LayoutScan& scan, const std::string& module) {
  for (const char* prefix : {"", "model.diffusion_model.", "diffusion_model.", "model."})
    if (scan.sibling(prefix + module, ".weight")) return prefix + module;
  return module;
}

void detect_comfy(LayoutScan& scan) {
  for (TensorRef description : scan.ending(kDescription)) {
    if (!scan.is_free(description)) continue;
    const std::string module(scan.stem(description, kDescription));
    const std::optional<Bytes> bytes = scan.values().get(description);
    if (!bytes) {
      if (!scan.values().pending(description))
        scan.problem("comfy_quant", module + ".weight", "its description cannot be read",
                     {description, scan.sibling(module, ".weight")});
      continue;
    }
    const JsonDocument json = parse_json(as_text(*bytes), JsonDialect::kPython);
    if (json.error)
      scan.problem("comfy_quant", module + ".weight", "its description is not JSON",
                   {description, scan.sibling(module, ".weight")});
    else
      detect_layer(scan, module, json.root, description);
  }
  for (const Shard& shard : scan.checkpoint().shards)
    for (const auto& [key, value] : shard.header.metadata) {
      if (key != "_quantization_metadata") continue;
      const JsonDocument json = parse_json(value, JsonDialect::kPython);
      const JsonValue* described = json.error ? nullptr : json.root.get("layers");
      if (!described || !described->is_object()) {
        scan.note("_quantization_metadata is not what ComfyUI writes: no layers object");
        continue;
      }
      for (const auto& [layer, options] : described->members) {
        const std::string module = stored_module(scan, layer);
        // The tensor form has said it already.
        if (!scan.checkpoint().find(module + kDescription.data()))
          detect_layer(scan, module, options, std::nullopt);
      }
    }
}

constexpr const QuantFormat* kComfyFormats[] = {&kComfyFp8, &kComfyMxfp8, &kComfyNvfp4, &kComfyInt8,
                                                &kConvrot,  &kW4a8,       &kAwq,        &kSvdquant};

}  // namespace

constexpr QuantFamily kComfyFamily = {"ComfyUI", kComfyFormats, detect_comfy};

}  // namespace tftf
