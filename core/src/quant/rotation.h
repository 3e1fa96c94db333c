// The rotations of ComfyUI's "convrot" layouts: blocks of a row times a symmetric orthogonal matrix, its own inverse.
#pragma once

#include <cstdint>

namespace tftf {

inline constexpr uint64_t kLargestRotation = 4096;
// A power of 4: the normalised Kronecker power of [[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]]. Or 512: Sylvester's
// matrix.
bool is_rotation_size(uint64_t size);
// In place: passes of sums (left to right) over columns 1, 4, 16, … (1, 2, 4, …) apart, then one product with 1 /
// sqrt(size), all in F32.
void rotate_block(float* block, uint64_t size) noexcept;

}  // namespace tftf
