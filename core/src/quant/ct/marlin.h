// Marlin 2:4: two of four columns, permuted for the sparse tensor cores of one GPU (spec compressed-tensors 2.9).
#pragma once

#include <string>

#include "tftf/quant/weight.h"

namespace tftf::ct {

// Rows, columns, bits and groups, which only the shapes tell; what is wrong with them, or nothing.
std::string fit_marlin(const Checkpoint& checkpoint, QuantMatch& match);
Result<Weight> open_marlin(OpenContext& context, const QuantMatch& match);

}  // namespace tftf::ct
