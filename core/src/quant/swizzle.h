// The order in which tensor cores read block scales (cuBLAS "128 x 4"): a matrix [rows, columns] of bytes is padded with
// zeros to tiles of 128 x 4, each 512 bytes, one row of tiles after the other.
#pragma once

#include <cstdint>

#include "tftf/base/checked.h"

namespace tftf {

inline constexpr uint64_t kSwizzleRows = 128;
inline constexpr uint64_t kSwizzleColumns = 4;
inline constexpr uint64_t kSwizzleTile = kSwizzleRows * kSwizzleColumns;

// Bytes of 128 rows.
inline uint64_t swizzled_band(uint64_t columns) { return ceil_div(columns, kSwizzleColumns) * kSwizzleTile; }
// Where (row, column) of a band of 128 rows stands.
inline uint64_t swizzled_at(uint64_t row, uint64_t column) {
  return column / kSwizzleColumns * kSwizzleTile + row % 32 * 16 + row / 32 * 4 + column % kSwizzleColumns;
}

}  // namespace tftf
