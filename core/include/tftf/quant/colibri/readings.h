// Every format whose sizes a pair has, not only the one that a reader takes (spec colibri 2.3).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tftf/quant/colibri/format.h"

namespace tftf::colibri {

struct Reading {
  Format format = Format::kF32;
  // kInt4Grouped: the group sizes below the columns that give this many groups, probed by readers or not. 0 else.
  uint64_t least_group = 0;
  uint64_t most_group = 0;
};

// In number order; kF32 and kMxfp4 never. Empty when nothing fits, or rows or columns are 0.
std::vector<Reading> possible_readings(uint64_t rows, uint64_t columns, uint64_t weight_bytes,
                                       uint64_t scale_bytes);

// The group sizes below `columns` that cut a row into `groups` > 1 groups: least and most; 0 and 0 when there are none.
std::pair<uint64_t, uint64_t> group_sizes(uint64_t columns, uint64_t groups);

}  // namespace tftf::colibri
