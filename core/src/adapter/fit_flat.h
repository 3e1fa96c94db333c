// Factors that PEFT has made for fused experts: which pair belongs to which parameter, and which way round they lie (spec
// experts 6.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/result.h"

namespace tftf::fitting {

// A (E * r, in) with the expert outermost, B (out, r * E) with the expert innermost.
struct FlatPair {
  uint64_t rows = 0, in = 0, out = 0;
};

// What the configuration and the base say of the experts.
struct FlatExperts {
  bool gated = true;
  bool up = true, down = true;          // whether the parameter is adapted
  uint64_t up_rank = 0, down_rank = 0;  // 0: any
  // Of the base; 0: not known.
  uint64_t experts = 0, inner = 0, outer = 0;  // E, F, H
};

struct FlatReading {
  bool crosswise = false;     // the difference is the transpose of B * A
  std::vector<bool> is_down;  // by pair
  uint64_t experts = 0;
  friend bool operator==(const FlatReading&, const FlatReading&) = default;
};

// Every way to read the pairs of a container, at most two. A single pair has none unless the base's sizes are known.
std::vector<FlatReading> flat_readings(const std::vector<FlatPair>& pairs, const FlatExperts& experts);

}  // namespace tftf::fitting
