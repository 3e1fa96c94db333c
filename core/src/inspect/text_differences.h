// What two checkpoints say differently besides their tensors.
#pragma once

#include <vector>

#include "tftf/inspect/comparison.h"

namespace tftf {

// Of all shards, the first that has a key; by the left side's order, then the right's.
std::vector<TextDifference> metadata_differences(const Checkpoint& left, const Checkpoint& right);

// Of the side files that the reader takes along. Files that are JSON on both sides are compared member by member,
// whatever their order and white space; others as text.
std::vector<TextDifference> config_differences(const Checkpoint& left, const Checkpoint& right);

}  // namespace tftf
