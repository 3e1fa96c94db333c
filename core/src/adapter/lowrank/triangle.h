// A factor F (R x length) as L * Q with Q's rows orthonormal: L is what is needed of it.
#pragma once

#include <cstdint>

#include "tftf/adapter/low_rank.h"

namespace tftf::lowrank {

// L is R x kept. Its row order[i] is row i of `l` (stride R), which is zero behind column i for i < kept: what is left
// after `kept` steps is rounding.
struct Triangle {
  uint64_t rank = 0;
  uint64_t kept = 0;
  double* l = nullptr;
  uint32_t* order = nullptr;  // R of them
};

// From gram = F * F^T, which is spent: Cholesky with the largest remaining diagonal first. Directions below about 1e-8 of the
// largest are lost.
void cholesky_triangle(double* gram, Triangle& into);

// From F itself, by Householder reflections over pieces of its columns: those of 1e-16 are there. `work`: R * (R + kChunk)
// elements, `rows`: a chunk's.
void householder_triangle(const KernelTable& kernels, const FactorStack& from, double* rows, double* work,
                          Triangle& into);

}  // namespace tftf::lowrank
