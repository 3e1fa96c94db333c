// The leading right singular vectors of a matrix that is seen some rows at a time, and several times: block power iteration
// with a Rayleigh-Ritz step at its end. All in F64 and in the order of the rows.
#pragma once

#include <cstdint>

#include "tftf/simd/kernels.h"

namespace tftf::lowrank {

struct SubspaceShape {
  uint64_t rows = 0, cols = 0;  // of the matrix
  uint64_t kept = 1;            // vectors that are wanted
  uint64_t block = 1;           // vectors that are iterated: kept and some more, at most `cols`
  uint64_t passes = 1;          // over all rows
  uint64_t piece = 1;           // rows seen at a time

  uint64_t pieces() const { return (rows + piece - 1) / piece; }
};
// For `kept` vectors, at most the smaller side. Exact where the block spans all there is; elsewhere the error's norm is about
// a thousandth above the optimum at worst, on spectra that do not fall at all less than on others.
SubspaceShape subspace_shape(uint64_t rows, uint64_t cols, uint64_t kept);

// What is carried from piece to piece, zero before the first: elements of `state`. Afterwards kept singular values, then
// kept x cols vectors, from vectors_at() on.
uint64_t subspace_state(const SubspaceShape& shape);
uint64_t vectors_at(const SubspaceShape& shape);
// Elements of scratch of one piece.
uint64_t subspace_scratch(const SubspaceShape& shape);

// Piece `number` (of passes * pieces(), in order): `count` rows of the matrix, row-major, in `matrix`.
void add_piece(const KernelTable& kernels, const SubspaceShape& shape, uint64_t number, const double* matrix,
               uint64_t count, double* state, double* scratch);

// out (kept x count, rows `stride` apart) = vectors * matrix^T for `count` rows. Scratch: subspace_scratch().
void project_rows(const KernelTable& kernels, const SubspaceShape& shape, const double* state,
                  const double* matrix, uint64_t count, double* out, uint64_t stride, double* scratch);

}  // namespace tftf::lowrank
