// The small data of a merge, made ready: factors widened and packed, rotations worked out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/adapter/merge.h"

namespace tftf::transform {

// Where each part lies, in elements of F32 (F64 for weights of F64); `total` is a multiple of 16.
struct MergeLayout {
  uint64_t left = 0, right = 0, left2 = 0, right2 = 0;  // right factors in panels (simd/product.h)
  // kKronecker: a factor that is stored whole is in left or left2; one that is a product is worked out row by row.
  uint64_t multiplier = 0, rotation = 0, turn = 0, magnitude = 0;
  uint64_t total = 0;
};
MergeLayout merge_layout(const MergeProgram& program);

// kKronecker: shapes of the two factors.
struct KroneckerShape {
  uint64_t rows1 = 1, cols1 = 1, rows2 = 1, cols2 = 1;
};
KroneckerShape kronecker_shape(const MergeProgram& program);

// T: float or double. `ready`: merge_layout().total elements.
template <class T>
void prepare_merge(const MergeProgram& program, uint64_t matrix, T* ready);

}  // namespace tftf::transform
