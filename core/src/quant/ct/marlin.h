// Marlin 2:4: two of four columns, permuted for the sparse tensor cores of one GPU (spec compressed-tensors 2.9).
#pragma once

#include <string>

#include "quant/ct/fault.h"
#include "tftf/quant/weight.h"

namespace tftf::ct {

// Rows, columns, bits and groups, which only the shapes tell; what is wrong with them, or nothing.
Fault fit_marlin(const Checkpoint& checkpoint, QuantMatch& match);
Result<Weight> open_marlin(OpenContext& context, const QuantMatch& match);

// Places in a stripe of 64 rows: of a stored value of a slice of 32 columns (`old`: 256 * (row / 16) + 16 * its number among
// the 16 that are kept + row % 16), of the scale of a row where scales are permuted, and of the nibbles of a row's 16 columns
// in `meta`, a row of 128 for each slice.
uint64_t marlin_value_place(uint32_t bits, uint64_t old);
uint64_t marlin_scale_place(uint64_t row);
uint64_t marlin_meta_place(uint64_t row, uint64_t column);

}  // namespace tftf::ct
