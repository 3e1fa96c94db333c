// ComfyUI's per-layer descriptions: `<m>.comfy_quant` tensors or `_quantization_metadata` (spec
// other-quant-layouts 7.2).
#include <algorithm>

#include "quant/comfy_codes.h"
#include "quant/comfy_encoders.h"
#include "quant/comfy_integers.h"
#include "quant/families.h"
#include "quant/fp8_grid.h"
#include "quant/layout_scan.h"
#include "quant/nvfp4.h"
#include "quant/rotation.h"
#include "quant/scale_shape.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

const ComfyOptions& options_of(const QuantMatch& match) {
  return *static_cast<const ComfyOptions*>(match.detail.get());
}

constexpr std::string_view kComfyScale = "weight_scale";
constexpr uint64_t kUsualRotation = 256;

Result<Weight> open_comfy_fp8(OpenContext& context, const QuantMatch& match) {
  return open_fp8_scales(context, match, kComfyScale);
}

Result<Weight> open_comfy_mxfp8(OpenContext& context, const QuantMatch& match) {
  const bool e5m2 = context.checkpoint.info(match.weight).dtype == DType::F8_E5M2;
  return open_scaled_codes(
      context, match, {.code = e5m2 ? SmallCode::kE5m2 : SmallCode::kE4m3, .group = 32, .swizzled = true},
      kComfyScale);
}

Result<Weight> open_comfy_nvfp4(OpenContext& context, const QuantMatch& match) {
  return open_nvfp4(context, match, {.high_first = true, .swizzled = true});
}

// Rotated blocks have to be whole.
Result<void> check_rotation(const OpenContext& context, const QuantMatch& match, uint64_t rotation) {
  if (rotation == 0) return {};
  const uint64_t columns =
      match.logical_shape && !match.logical_shape->empty() ? match.logical_shape->back() : 0;
  if (is_rotation_size(rotation) && columns % rotation == 0) return {};
  return weight_fault(ErrorCode::kRefusedShape, context, match,
                      "has rows of " + std::to_string(columns) +
                          " codes, which are not rotated in blocks of " + std::to_string(rotation));
}

Result<Weight> open_comfy_int8(OpenContext& context, const QuantMatch& match) {
  TFTF_TRY(check_rotation(context, match, options_of(match).rotation));
  return open_scaled_int8(context, match, kComfyScale, options_of(match).rotation);
}

Result<Weight> open_convrot(OpenContext& context, const QuantMatch& match) {
  const uint64_t rotation = options_of(match).rotation == 0 ? kUsualRotation : options_of(match).rotation;
  TFTF_TRY(check_rotation(context, match, rotation));
  const uint64_t columns = match.logical_shape ? match.logical_shape->back() : 0;
  return open_scaled_codes(context, match, {.code = SmallCode::kInt4, .group = columns, .rotation = rotation},
                           kComfyScale);
}

Result<Weight> open_w4a8_layer(OpenContext& context, const QuantMatch& match) {
  return open_comfy_w4a8(context, match, options_of(match));
}

Result<Weight> open_awq_layer(OpenContext& context, const QuantMatch& match) {
  return open_comfy_awq(context, match, options_of(match));
}

constexpr QuantFormat kComfyFp8 = {.id = "comfy-fp8",
                                   .title = "ComfyUI FP8 with a weight_scale",
                                   .open = open_comfy_fp8,
                                   .encoder = &kComfyFp8Encoder,
                                   .codes = &kComfyFp8Codes};
constexpr QuantFormat kComfyMxfp8 = {
    .id = "comfy-mxfp8", .title = "ComfyUI MXFP8, swizzled scales", .open = open_comfy_mxfp8};
constexpr QuantFormat kComfyNvfp4 = {.id = "comfy-nvfp4",
                                     .title = "ComfyUI NVFP4, high nibble first, swizzled scales",
                                     .open = open_comfy_nvfp4,
                                     .encoder = &kComfyNvfp4Encoder,
                                     .codes = &kComfyNvfp4Codes};
constexpr QuantFormat kComfyInt8 = {
    .id = "comfy-int8", .title = "ComfyUI INT8, with or without rotation", .open = open_comfy_int8};
constexpr QuantFormat kConvrot = {
    .id = "comfy-convrot-w4a4", .title = "ComfyUI INT4 in a rotated basis", .open = open_convrot};
constexpr QuantFormat kW4a8 = {
    .id = "comfy-w4a8", .title = "ComfyUI W4A8 on an int8 grid", .open = open_w4a8_layer};
constexpr QuantFormat kAwq = {.id = "comfy-awq-w4a16", .title = "ComfyUI AWQ W4A16", .open = open_awq_layer};
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

uint64_t whole_option(const JsonValue& json, std::string_view key) {
  const JsonValue* value = json.is_string() ? nullptr : option(json, key);
  const auto whole = value == nullptr ? std::nullopt : value->as_integer();
  return whole && *whole > 0 ? static_cast<uint64_t>(*whole) : 0;
}

ComfyOptions options_from(const JsonValue& json, const QuantFormat& format) {
  ComfyOptions options{whole_option(json, "group_size"), whole_option(json, "convrot_groupsize")};
  if (&format == &kComfyInt8) {
    const JsonValue* rotated = json.is_string() ? nullptr : option(json, "convrot");
    if (rotated == nullptr || !rotated->is_true())
      options.rotation = 0;
    else if (options.rotation == 0)
      options.rotation = kUsualRotation;
  }
  return options;
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
  if (const auto correction = scan.sibling(module, ".weight_correction");
      correction && layer->format == &kW4a8)
    return scan.problem(kW4a8.id, name, "it has a weight_correction, which is not read",
                        {weight, description, correction});
  for (std::string_view part : kCommon) scan.add_companion(match, part, module, "." + std::string(part));
  if (description) match.companions.push_back({"comfy_quant", *description});
  const TensorRef* scale = match.find("weight_scale");
  match.logical_dtype = native_dtype(scale ? scan.info(*scale).dtype : DType::BF16);
  if (layer->format == &kW4a8) match.logical_dtype = DType::F32;
  if (layer->format == &kComfyNvfp4 || layer->format == &kComfyMxfp8) {
    scan.note(std::string(layer->format->id) + " pads weights to multiples of " +
              (layer->format == &kComfyNvfp4 ? "16" : "32") +
              "; their own size is in no file, so the padded one is kept");
    match.logical_dtype = DType::BF16;
    match.group_size = layer->format == &kComfyNvfp4 ? 16 : 32;
  }
  if (layer->format != &kSvdquant && !stored.shape.empty()) {
    match.logical_shape = stored.shape;
    if (layer->two_per_byte) match.logical_shape->back() *= 2;
  }
  const auto options = std::make_shared<const ComfyOptions>(options_from(json, *layer->format));
  if (scale != nullptr && match.logical_shape &&
      scale_shape(stored.shape, scan.info(*scale).shape) == ScaleShape::kOther) {
    std::optional<BlockSize> declared;
    if (options->group != 0) declared = BlockSize{options->group, options->group};
    if (const auto block = block_of(stored.shape, scan.info(*scale).shape, declared)) {
      match.block[0] = block->rows;
      match.block[1] = block->columns;
    }
  }
  match.detail = options;
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
