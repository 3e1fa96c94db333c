// Repacking to ComfyUI: the older scaled FP8 to comfy_quant, ModelOpt's NVFP4 to its own (spec other-quant-layouts 7, 12).
#include "quant/comfy_codes.h"

#include "quant/comfy_encoders.h"
#include "quant/nvfp4.h"
#include "quant/planes.h"
#include "tftf/base/affix.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/checkpoint/small_values.h"

namespace tftf {
namespace {

constexpr uint64_t kPaddedRows = 16;
constexpr uint64_t kNvfp4Codes = 16;  // under one scale

// A tensor that stays as it is, under the name that the target gives it.
void add_kept(CodeForm& form, const OpenContext& context, PlaneRole role, const TensorRef* tensor) {
  if (tensor == nullptr) return;
  const TensorInfo& info = context.checkpoint.info(*tensor);
  form.planes.push_back({.role = role, .form = value_plane(info.dtype, info.shape), .tensor = *tensor});
}

// A scale of 1 for activations means that there is none.
bool is_one(OpenContext& context, TensorRef tensor) {
  const TensorInfo& info = context.checkpoint.info(tensor);
  if (info.dtype != DType::F32 || info.bytes() != sizeof(float) || context.values == nullptr) return false;
  const std::optional<Bytes> bytes = context.values->get(tensor);
  return bytes && load_le<float>(bytes->data()) == 1.0f;
}

Result<CodeForm> comfy_scaled_codes(OpenContext& context, const QuantMatch& match) {
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  const TensorRef* scale = match.find("scale_weight");
  if (scale == nullptr) return no_place("it has no scale_weight");
  if (codes.dtype != DType::F8_E4M3 && codes.dtype != DType::F8_E5M2)
    return no_place("its codes are " + std::string(dtype_name(codes.dtype)));
  CodeForm form;
  form.kind = CodeKind::kScaledFp8;
  form.bits = 8;
  const auto* detail = static_cast<const ComfyScaledDetail*>(match.detail.get());
  form.full_precision = detail != nullptr && detail->full_precision;
  add_kept(form, context, PlaneRole::kCodes, &match.weight);
  add_kept(form, context, PlaneRole::kScales, scale);
  const TensorRef* input = match.find("scale_input");
  if (input != nullptr && !is_one(context, *input)) add_kept(form, context, PlaneRole::kActivations, input);
  return form;
}

// "x." of "x.weight".
Result<std::string> comfy_prefix(const PackRequest& request) {
  if (request.name == "weight" || ends_with(request.name, ".weight"))
    return request.name.substr(0, request.name.size() - 6);
  return no_place("it is not called *.weight, as ComfyUI calls the weights it looks for scales of");
}

void add_renamed(PackedCodes& packed, const CodeForm& from, PlaneRole role, std::string name) {
  const CodePlane* plane = from.find(role);
  if (plane != nullptr) packed.planes.push_back({.role = role, .form = plane->form, .name = std::move(name)});
}

void add_description(PackedCodes& packed, const std::string& prefix, std::string text) {
  const uint64_t bytes = text.size();
  packed.planes.push_back({.role = PlaneRole::kText,
                           .form = value_plane(DType::U8, {bytes}),
                           .name = prefix + "comfy_quant",
                           .text = std::move(text)});
}

Result<PackedCodes> pack_comfy_fp8(const CodeForm& from, const PackRequest& request) {
  Result<std::string> prefix = comfy_prefix(request);
  if (!prefix) return std::move(prefix).error();
  PackedCodes packed;
  add_renamed(packed, from, PlaneRole::kCodes, request.name);
  add_renamed(packed, from, PlaneRole::kScales, *prefix + "weight_scale");
  add_renamed(packed, from, PlaneRole::kActivations, *prefix + "input_scale");
  const bool e5m2 = packed.planes.front().form.dtype == DType::F8_E5M2;
  add_description(packed, *prefix,
                  comfy_description_text(e5m2 ? "float8_e5m2" : "float8_e4m3fn", from.full_precision));
  return packed;
}

Result<CodeForm> modelopt_nvfp4_codes(OpenContext& context, const QuantMatch& match) {
  // The tensors fit each other, or this says why not.
  Result<Weight> weight = open_nvfp4(context, match, {});
  if (!weight) return std::move(weight).error();
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  if (codes.shape.size() != 2) return no_place("it is a stack of matrices, not one");
  if (weight->shape[1] % kNvfp4Codes != 0)
    return no_place("its " + std::to_string(weight->shape[1]) + " columns are no multiple of 16");
  CodeForm form;
  form.kind = CodeKind::kFp4;
  form.bits = 4;
  form.outputs = weight->shape[0];
  form.inputs = weight->shape[1];
  form.group = kNvfp4Codes;
  form.planes.push_back({.role = PlaneRole::kCodes,
                         .form = nibble_plane(kNibblesLowFirst, form.outputs, form.inputs),
                         .tensor = match.weight});
  const TensorRef scales = *match.find("weight_scale");
  form.planes.push_back({.role = PlaneRole::kScales,
                         .form = byte_plane(kByteRows, context.checkpoint.info(scales).dtype, form.outputs,
                                            form.inputs / kNvfp4Codes),
                         .tensor = scales});
  add_kept(form, context, PlaneRole::kGlobal, match.find("weight_scale_2"));
  add_kept(form, context, PlaneRole::kActivations, match.find("input_scale"));
  add_kept(form, context, PlaneRole::kPreScale, match.find("pre_quant_scale"));
  return form;
}

Result<PackedCodes> pack_comfy_nvfp4(const CodeForm& from, const PackRequest& request) {
  Result<std::string> prefix = comfy_prefix(request);
  if (!prefix) return std::move(prefix).error();
  const auto rows = checked_mul(ceil_div(from.outputs, kPaddedRows), kPaddedRows);
  if (!rows) return no_place("it has too many rows");
  PackedCodes packed;
  packed.planes.push_back({.role = PlaneRole::kCodes,
                           .form = nibble_plane(kNibblesHighFirst, *rows, from.inputs),
                           .name = request.name});
  packed.planes.push_back({.role = PlaneRole::kScales,
                           .form = byte_plane(kSwizzledBytes, from.find(PlaneRole::kScales)->form.dtype,
                                              *rows, from.inputs / kNvfp4Codes),
                           .name = *prefix + "weight_scale"});
  add_renamed(packed, from, PlaneRole::kGlobal, *prefix + "weight_scale_2");
  add_renamed(packed, from, PlaneRole::kActivations, *prefix + "input_scale");
  add_renamed(packed, from, PlaneRole::kPreScale, *prefix + "pre_quant_scale");
  add_description(packed, *prefix, comfy_description_text("nvfp4", false));
  return packed;
}

}  // namespace

const CodeLayout kComfyScaledFp8Codes{
    .kind = CodeKind::kScaledFp8, .codes = comfy_scaled_codes, .extras_go = true};
const CodeLayout kComfyFp8Codes{
    .kind = CodeKind::kScaledFp8, .pack = pack_comfy_fp8, .describes_itself = true};
const CodeLayout kModeloptNvfp4Codes{.kind = CodeKind::kFp4, .codes = modelopt_nvfp4_codes};
const CodeLayout kComfyNvfp4Codes{.kind = CodeKind::kFp4, .pack = pack_comfy_nvfp4, .describes_itself = true};

}  // namespace tftf
