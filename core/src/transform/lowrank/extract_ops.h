// Steps of an extraction: what differs, and the factors of the difference.
#pragma once

#include "adapter/lowrank/subspace.h"
#include "tftf/plan/plan.h"

namespace tftf::lowrank {

// Context of the items of one weight. Inputs: tuned, original.
struct DifferenceTask {
  SubspaceShape shape{};
  DType tuned{}, original{};
  DType to{};
};

// Item::in_dtype, out_dtype: those of the two inputs; units: elements. Value: n[0] elements that differ, n[1] that are not
// finite in either.
extern const TileOp kDifferenceOp;
// Resident::gather: the subspace of a weight's difference; units: pieces of rows, as often as there are passes.
extern const TileOp kSubspaceOp;
uint64_t subspace_bytes(const DifferenceTask& task);
// Output: the upper factor, rows x kept; units: rows. It needs the subspace. Value: n[0] elements that became infinite.
extern const TileOp kUpperFactorOp;
// Output: the lower factor, kept x cols; one unit.
extern const TileOp kLowerFactorOp;

}  // namespace tftf::lowrank
