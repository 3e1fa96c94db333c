// What stages that work on whole rows share.
#pragma once

#include "stage.h"
#include "tftf/base/checked.h"

namespace tftf::transform {

struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// The rows of a range that consists of whole ones.
inline RowRange rows_of(ElementRange range, uint64_t columns) {
  return {range.first / columns, range.count / columns};
}

// Rows of a tensor that has `row_bytes` in each.
inline Extent row_slice(const Extent& whole, RowRange rows, uint64_t row_bytes) {
  return slice(whole, rows.first * row_bytes, rows.count * row_bytes);
}

inline uint64_t slot_rounded(uint64_t bytes) { return ceil_div(bytes, kSlotAlign) * kSlotAlign; }

}  // namespace tftf::transform
