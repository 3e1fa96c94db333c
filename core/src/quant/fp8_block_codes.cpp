// FP8 with block scales as a container of its codes.
#include <algorithm>

#include "quant/fp8_block_encoder.h"
#include "quant/planes.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_value.h"

namespace tftf {
namespace {

constexpr std::string_view kInverseScale = "weight_scale_inv";

Result<CodeForm> fp8_block_codes(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scale = match.find(kInverseScale);
  if (scale == nullptr) return no_place("it has no " + std::string(kInverseScale));
  const TensorInfo &codes = context.checkpoint.info(match.weight), &scales = context.checkpoint.info(*scale);
  if (codes.dtype != DType::F8_E4M3) return no_place("its codes are " + std::string(dtype_name(codes.dtype)));
  if (codes.shape.size() != 2) return no_place("it is no matrix");
  CodeForm form;
  form.kind = CodeKind::kFp8;
  form.bits = 8;
  form.outputs = codes.shape[0];
  form.inputs = codes.shape[1];
  form.block[0] = match.block[0];
  form.block[1] = match.block[1];
  form.planes = {
      {.role = PlaneRole::kCodes, .form = value_plane(codes.dtype, codes.shape), .tensor = match.weight},
      {.role = PlaneRole::kScales, .form = value_plane(scales.dtype, scales.shape), .tensor = *scale}};
  return form;
}

Result<PackedCodes> pack_fp8_block(const CodeForm& from, const PackRequest& request) {
  const CodePlane& scales = *from.find(PlaneRole::kScales);
  PackedCodes packed;
  packed.planes.push_back({.role = PlaneRole::kCodes,
                           .form = value_plane(DType::F8_E4M3, {from.outputs, from.inputs}),
                           .name = request.name});
  packed.planes.push_back(
      {.role = PlaneRole::kScales,
       .form = value_plane(scales.form.dtype, {ceil_div(from.outputs, std::max<uint64_t>(from.block[0], 1)),
                                               ceil_div(from.inputs, std::max<uint64_t>(from.block[1], 1))}),
       .name = request.name + "_scale_inv"});
  return packed;
}

Result<std::string> packed_fp8_block(const PackedModel& model, const JsonValue* said) {
  if (said != nullptr && said->is_object() && said->string("quant_method") == "fp8") return std::string();
  std::string text = kFp8BlockEncoder.config({model.plain_modules, {}});
  // Those of compressed-tensors may be of another size than ours.
  const PackedModule& first = model.modules.front();
  for (const PackedModule& module : model.modules) {
    if (module.block[0] == first.block[0] && module.block[1] == first.block[1]) continue;
    return Error{
        .code = ErrorCode::kRefusedUnsupported,
        .message = "Modules \"" + first.name + "\" and \"" + module.name +
                   "\" have blocks of different sizes, and the configuration of fp8-block names one.",
        .tensor = module.name};
  }
  constexpr std::string_view kUsual = "[128, 128]";
  if (first.block[0] != 0)
    text.replace(text.find(kUsual), kUsual.size(),
                 "[" + std::to_string(first.block[0]) + ", " + std::to_string(first.block[1]) + "]");
  return text;
}

}  // namespace

const CodeLayout kFp8BlockCodes{CodeKind::kFp8, fp8_block_codes, pack_fp8_block, packed_fp8_block};

}  // namespace tftf
