// What rotations do to the rows of a weight, and the small matrices they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tftf/adapter/merge.h"

namespace tftf::transform {

using Square = std::vector<double>;  // n x n, row-major

Square square_product(const Square& a, const Square& b, uint64_t n);
// (I - Q)(I + Q)^-1 for skew Q.
Square cayley(const Square& q, uint64_t n);

// T: float or double. MergeProgram::turn made ready: as many elements as it has.
template <class T>
void prepare_turn(const MergeProgram& program, T* to);
// A whole row of the weight; `spare`: as many elements.
template <class T>
void turn_row(const MergeProgram& program, const T* ready, uint64_t row_number, T* row, T* spare);

}  // namespace tftf::transform
