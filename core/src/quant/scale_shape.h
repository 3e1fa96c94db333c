// What a scale's shape says about its weight.
#pragma once

#include <optional>

#include "quant/layout_scan.h"

namespace tftf {

enum class ScaleShape : uint8_t {
  kTensor,   // one value, or one per expert of a stack
  kChannel,  // one per row
  kOther,    // a grid, perhaps
};

// Dimensions of length 1 are free: [N], [N,1] and [E,N,1] are per row.
ScaleShape scale_shape(const Shape& weight, const Shape& scale);

// The blocks of a grid [ceil(N/r), ceil(K/c)] behind the weight's leading dimensions; 1-dimensions may stand
// between ([gn,1,gk,1]).
std::optional<BlockSize> block_of(const Shape& weight, const Shape& scale, std::optional<BlockSize> declared);

}  // namespace tftf
