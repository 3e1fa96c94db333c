// Checks the tensors of a GPTQ or AWQ module against each other.
#include <algorithm>

#include "quant/qweight.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr uint64_t kMostInputs = UINT32_MAX;  // rows of a strip are counted in 32 bits

}  // namespace

Result<QweightGeometry> qweight_geometry(const OpenContext& context, const QuantMatch& match) {
  const auto fault = [&](ErrorCode code, const std::string& what) {
    return weight_fault(code, context, match, what);
  };
  const TensorRef *scales_ref = match.find("scales"), *zeros_ref = match.find("qzeros"),
                  *index_ref = match.find("g_idx");
  if (scales_ref == nullptr || !match.logical_shape || match.logical_shape->size() != 2)
    return fault(ErrorCode::kRefusedMissing, "lacks its scales or its shape");
  QweightGeometry g;
  g.packing = match.layout == "awq-gemm"   ? QweightPacking::kGemm
              : match.layout == "awq-gemv" ? QweightPacking::kGemv
                                           : QweightPacking::kGptq;
  g.bits = match.bits;
  g.outputs = (*match.logical_shape)[0];
  g.inputs = (*match.logical_shape)[1];
  g.group = std::min(match.group_size, g.inputs);
  if (g.outputs == 0 || g.inputs == 0) return fault(ErrorCode::kRefusedShape, "has no elements");
  if (g.inputs > kMostInputs || !checked_mul(g.outputs, g.inputs))
    return fault(ErrorCode::kRefusedShape, "is too large");
  if (g.bits != 2 && g.bits != 3 && g.bits != 4 && g.bits != 8)
    return fault(ErrorCode::kRefusedUnsupported, "has codes of " + std::to_string(g.bits) + " bits");
  if (g.group == 0) {
    return fault(ErrorCode::kRefusedConfig,
                 "has groups of an unknown length: no usual one fits, and no configuration says group_size");
  }

  const TensorInfo &codes = context.checkpoint.info(match.weight),
                   &scales = context.checkpoint.info(*scales_ref);
  const auto expect = [&](std::string_view role, const TensorInfo& info, DType dtype,
                          const Shape& shape) -> Result<void> {
    if (info.dtype == dtype && info.shape == shape) return {};
    return fault(ErrorCode::kRefusedShape, "has " + std::string(role) + ' ' +
                                               std::string(dtype_name(info.dtype)) + shape_text(info.shape) +
                                               ", where " + std::string(dtype_name(dtype)) +
                                               shape_text(shape) + " is expected");
  };
  const bool gemv = g.packing == QweightPacking::kGemv;
  const uint64_t words = g.inputs * g.bits / 32, groups = ceil_div(g.inputs, g.group);
  g.scale = scales.dtype;
  if (g.scale != DType::F16 && g.scale != DType::BF16 && g.scale != DType::F32) {
    return fault(ErrorCode::kRefusedUnsupported,
                 "has scales of " + std::string(dtype_name(g.scale)) + ", not of F16, BF16 or F32");
  }
  if (scales.shape.size() != 2) return fault(ErrorCode::kRefusedShape, "has scales that are no matrix");
  g.scale_width = scales.shape[1];
  g.groups = gemv ? groups : scales.shape[0];
  if (gemv) {
    TFTF_TRY(expect("qweight", codes, DType::I32, {g.outputs, words}));
    if (g.scale_width < groups || g.scale_width % 8 != 0 || scales.shape[0] != g.outputs) {
      return fault(ErrorCode::kRefusedShape, "has scales " + shape_text(scales.shape) + " for " +
                                                 std::to_string(groups) + " groups of each of " +
                                                 std::to_string(g.outputs) + " rows");
    }
  } else {
    TFTF_TRY(expect(
        "qweight", codes, DType::I32,
        g.packing == QweightPacking::kGptq ? Shape{words, g.outputs} : Shape{g.inputs, g.outputs / 8}));
    TFTF_TRY(expect("scales", scales, g.scale, {g.groups, g.outputs}));
    if (index_ref == nullptr && g.groups != groups) {
      return fault(ErrorCode::kRefusedShape, "has " + std::to_string(g.groups) + " rows of scales, where " +
                                                 std::to_string(groups) + " groups of " +
                                                 std::to_string(g.group) + " are expected");
    }
  }
  if (g.groups == 0) return fault(ErrorCode::kRefusedShape, "has no scales");

  g.has_zeros = zeros_ref != nullptr;
  if (zeros_ref != nullptr) {
    TFTF_TRY(expect("qzeros", context.checkpoint.info(*zeros_ref), DType::I32,
                    gemv ? Shape{g.outputs, g.scale_width / 8} : Shape{g.groups, g.outputs * g.bits / 32}));
  } else if (g.packing != QweightPacking::kGemm) {
    return fault(ErrorCode::kRefusedMissing, "has no qzeros");
  }
  if (match.layout == "gptq-v1") {
    const auto* detail = static_cast<const GptqDetail*>(match.detail.get());
    g.zero_shift = 1;
    g.zero_wraps = detail == nullptr || detail->zero_wraps;
  }
  g.has_index = index_ref != nullptr && g.packing == QweightPacking::kGptq;
  if (g.has_index) TFTF_TRY(expect("g_idx", context.checkpoint.info(*index_ref), DType::I32, {g.inputs}));
  return g;
}

}  // namespace tftf
