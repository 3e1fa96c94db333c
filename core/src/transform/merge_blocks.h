// How a merge is cut into blocks, and what they need of scratch.
#pragma once

#include <algorithm>

#include "stage.h"
#include "tftf/base/checked.h"

namespace tftf::transform {

inline constexpr uint64_t kBlockElements = 32768;  // worked on at a time
inline constexpr uint64_t kBlockRows = 12;         // a multiple of the product kernels' blocks of rows

inline bool is_wide(const Stage& stage) { return stage.to == DType::F64; }
inline uint64_t wide_bytes(const Stage& stage) { return is_wide(stage) ? 8 : 4; }
inline uint64_t bytes_for(uint64_t elements, uint64_t size) {
  return ceil_div(elements * size, kSlotAlign) * kSlotAlign;
}

// Nothing but w + s * (L * R), from and to dtypes that the merge kernels know.
inline bool is_plain(const Stage& stage) {
  const MergeProgram& p = *stage.merge;
  const bool dtypes = is_wide(stage) ? stage.from == DType::F64 : stage.from != DType::F64;
  return dtypes && p.delta == MergeProgram::Delta::kProduct && p.multiplier == nullptr &&
         p.rotation == nullptr && p.turn == nullptr && p.magnitude == nullptr && p.set_rows == nullptr;
}

// Most elements of a block: several rows, a row, or a strip of one.
inline uint64_t block_elements(const MergeProgram& program) {
  const bool whole_rows = program.unit() != 1;
  return whole_rows ? std::max(kBlockElements, program.cols) : kBlockElements;
}

}  // namespace tftf::transform
