// The E8 lattice as the kernels want it: magnitudes (stored value * 0.5) and squared norms, both exact in F32.
#pragma once

#include <array>
#include <cstddef>

#include "simd/e8_grid.h"

namespace tftf::simd {

inline constexpr size_t kE8Entries = 256;

struct E8Lattice {
  std::array<std::array<float, kE8Entries>, 4> plane{};  // component i of entry e at plane[i][e]
  std::array<float, kE8Entries> norm{};
};

constexpr E8Lattice make_e8_lattice() {
  E8Lattice lattice;
  for (size_t e = 0; e < kE8Entries; ++e)
    for (size_t i = 0; i < 4; ++i) {
      const float m = static_cast<float>(kE8Grid[4 * e + i]) * 0.5f;
      lattice.plane[i][e] = m;
      lattice.norm[e] += m * m;
    }
  return lattice;
}
inline constexpr E8Lattice kE8Lattice = make_e8_lattice();

}  // namespace tftf::simd
