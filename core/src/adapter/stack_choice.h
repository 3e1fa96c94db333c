// Which pair of a module belongs to which of its stacked parameters, and which way round it lies (spec experts 6.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/dtype.h"

namespace tftf::merging {

// A pair A (E * r, in), B (out, r * E).
struct StackedPair {
  uint64_t rows = 0, in = 0, out = 0;
};

// A parameter: (E, x, y), or a matrix, which PEFT treats like a linear weight.
struct StackParameter {
  std::string name;
  Shape shape;
  uint64_t rank = 0;  // configured; 0: any
  size_t entry = 0;   // the entry of target_parameters that names it
};

// `turned`: what is added is the transpose of each B * A; the same for all parameters of a module.
struct StackChoice {
  bool turned = false;
  std::vector<size_t> parameters;  // by pair
  friend bool operator==(const StackChoice&, const StackChoice&) = default;
};

// No module has more of either (PEFT makes a pair per parameter, models have two or three of them).
inline constexpr size_t kMostStackedPairs = 4;
inline constexpr size_t kMostStackParameters = 16;

// Every way in which each pair has a parameter of its own whose shape (and rank) it fits.
std::vector<StackChoice> stack_choices(const std::vector<StackedPair>& pairs,
                                       const std::vector<StackParameter>& parameters);

// How the experts of a model type are stored, where the table of types tells.
enum class StoredAxes : uint8_t { kUnknown, kOutIn, kInOut, kBoth };
StoredAxes stored_expert_axes(const std::vector<std::string>& model_types);
// Gate and up take turns in the rows of their common matrix, instead of standing one behind the other.
bool interleaves_gate(const std::vector<std::string>& model_types);
// From the two shapes of gated experts (spec experts 4.2).
StoredAxes axes_of_shapes(const Shape& gate_up, const Shape& down);

// True for 0.19.1 and later, which read parameters of (E, out, in) as they lie.
bool reads_stacks_straight(const std::string& peft_version);

}  // namespace tftf::merging
