#include "quant/nvfp4.h"

namespace tftf {

Result<Weight> open_nvfp4(OpenContext& context, const QuantMatch& match, const Nvfp4Order& order,
                          std::string_view scales, std::string_view global) {
  return open_scaled_codes(context, match,
                           {.code = order.high_first ? CodeKind::kE2m1High : CodeKind::kE2m1,
                            .group = 16,
                            .byte_scale = DType::F8_E4M3,
                            .swizzled = order.swizzled,
                            .global = order.global},
                           scales, global);
}

}  // namespace tftf
