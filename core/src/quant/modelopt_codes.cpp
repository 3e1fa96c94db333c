// ModelOpt's NVFP4 as a container of its codes.
#include "quant/nvfp4.h"
#include "quant/planes.h"
#include "tftf/quant/code_form.h"

namespace tftf {
namespace {

Result<CodeForm> modelopt_nvfp4_codes(OpenContext& context, const QuantMatch& match) {
  // The tensors fit each other, or this says why not.
  Result<Weight> weight = open_nvfp4(context, match, {});
  if (!weight) return std::move(weight).error();
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  if (codes.shape.size() != 2) return no_place("it is a stack of matrices, not one");
  CodeForm form;
  form.kind = CodeKind::kFp4;
  form.bits = 4;
  form.outputs = weight->shape[0];
  form.inputs = weight->shape[1];
  form.group = 16;
  const auto add = [&](PlaneRole role, const TensorRef* tensor) {
    if (tensor == nullptr) return;
    const TensorInfo& info = context.checkpoint.info(*tensor);
    form.planes.push_back({.role = role, .form = value_plane(info.dtype, info.shape), .tensor = *tensor});
  };
  add(PlaneRole::kCodes, &match.weight);
  add(PlaneRole::kScales, match.find("weight_scale"));
  add(PlaneRole::kGlobal, match.find("weight_scale_2"));
  add(PlaneRole::kActivations, match.find("input_scale"));
  add(PlaneRole::kPreScale, match.find("pre_quant_scale"));
  return form;
}

}  // namespace

const CodeLayout kModeloptNvfp4Codes{.kind = CodeKind::kFp4, .codes = modelopt_nvfp4_codes};

}  // namespace tftf
