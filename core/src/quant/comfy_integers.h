// ComfyUI's four-bit integers: `asym_w4a8_int8` and `awq_w4a16` (spec other-quant-layouts 7.2).
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

// What a layer's description says beside its format.
struct ComfyOptions {
  uint64_t group = 0;     // columns that share a scale; 0: not said
  uint64_t rotation = 0;  // columns of a rotated block; 0: none
};

// i = codebook[code] (or code - 8) * weight_s_rel, rounded to a whole number, ties to even, and clamped to +-127; w = i *
// weight_s_channel, rotated back.
Result<Weight> open_comfy_w4a8(OpenContext& context, const QuantMatch& match, const ComfyOptions& options);
// w = (code - 8) * weight_scale + weight_zeros, both [groups, rows].
Result<Weight> open_comfy_awq(OpenContext& context, const QuantMatch& match, const ComfyOptions& options);

}  // namespace tftf
