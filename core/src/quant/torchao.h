// What torchao's metadata says of a tensor, and the opening of its weights.
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

// QuantMatch::detail.
struct TorchaoAttributes {
  Shape block;  // elements under one scale, by dimension; one number for the MX types: along the last
  bool swizzled = false;
  std::string element;  // of MXTensor: torch's name of its elements
};

Result<Weight> open_torchao(OpenContext& context, const QuantMatch& match);

}  // namespace tftf
