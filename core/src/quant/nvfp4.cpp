// Opens NVFP4.
#include "quant/nvfp4.h"

#include <algorithm>

namespace tftf {
namespace {

constexpr uint64_t kNvfp4Group = 16;

}  // namespace

Result<Weight> open_nvfp4(OpenContext& context, const QuantMatch& match, const Nvfp4Order& order,
                          std::string_view scales, std::string_view global) {
  return open_scaled_codes(context, match,
                           {.code = order.high_first ? SmallCode::kE2m1High : SmallCode::kE2m1,
                            .group = kNvfp4Group,
                            .byte_scale = DType::F8_E4M3,
                            .swizzled = order.swizzled,
                            .global = order.global},
                           scales, global);
}

Weight nvfp4_weight(const Shape& shape, TensorRef codes, TensorRef scales, TensorRef global) {
  const ScaledCodes spec{.code = SmallCode::kE2m1,
                         .rows = shape[0],
                         .columns = shape[1],
                         .group = kNvfp4Group,
                         .scale_dtype = DType::F8_E4M3,
                         .global = GlobalScale::kMultiply,
                         .rows_per_global = std::max<uint64_t>(1, shape[0])};
  return scaled_codes_weight(spec, "modelopt-nvfp4", shape, {codes, scales, global});
}

}  // namespace tftf
