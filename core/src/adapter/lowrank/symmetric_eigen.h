// Eigenvalues and eigenvectors of a small symmetric matrix.
#pragma once

#include <cstdint>

namespace tftf::lowrank {

// `a` (n x n, row-major, both halves) is spent. values: n, falling. vectors: n x n, row i belongs to value i and has length 1;
// only the first `wanted` rows are made. `work`: 2 * n elements. False when it does not converge, which for finite input it
// does.
bool symmetric_eigen(double* a, uint64_t n, uint64_t wanted, double* values, double* vectors, double* work);

}  // namespace tftf::lowrank
