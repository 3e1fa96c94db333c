// The E8 lattice as the kernels want it: magnitudes (stored value * 0.5) and squared norms, both exact in F32. Plain
// arrays: files for newer instruction sets must not emit inline functions.
#pragma once

#include <cstddef>

namespace tftf::simd {

constexpr size_t kE8Entries = 256;

struct E8Lattice {
  float plane[4][kE8Entries];  // component i of entry e at plane[i][e]
  float norm[kE8Entries];
};
extern const E8Lattice kE8Lattice;  // scalar_quantize.cpp

}  // namespace tftf::simd
