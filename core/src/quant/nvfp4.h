// NVFP4 of all producers: E2M1 codes, an E4M3 scale for sixteen of them, an F32 scale for a matrix.
#pragma once

#include "quant/scaled_codes.h"

namespace tftf {

// How a producer writes it. ModelOpt: the default. ComfyUI: high_first, swizzled. compressed-tensors: divides.
struct Nvfp4Order {
  bool high_first = false;  // nibbles
  bool swizzled = false;    // block scales
  GlobalScale global = GlobalScale::kMultiply;
};

// Opens a module of logical shape [.., rows, columns]. The block scales are E4M3 (U8 counts as that); the global scale, one
// for all or one per matrix, is F32. A pre_quant_scale is folded.
Result<Weight> open_nvfp4(OpenContext& context, const QuantMatch& match, const Nvfp4Order& order,
                          std::string_view scales = "weight_scale",
                          std::string_view global = "weight_scale_2");

extern const CodeLayout kModeloptNvfp4Codes;

// A matrix in ModelOpt's order whose tensors the caller has checked.
Weight nvfp4_weight(const Shape& shape, TensorRef codes, TensorRef scales, TensorRef global);

}  // namespace tftf
