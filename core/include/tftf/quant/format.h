// Quantised layouts: which tensors together make one logical weight (docs/architecture.md, "Quantised
// layouts").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// One module found in a checkpoint in one layout.
struct QuantMatch {
  std::string_view layout;             // id of the registry, e.g. "fp8-block"
  std::string module;                  // the logical weight's name, e.g. "model.layers.0.mlp.up_proj.weight"
  TensorRef weight;                    // the tensor that holds the codes
  std::vector<TensorRef> companions;   // scales, zeros, g_idx … consumed with it
  DType logical_dtype{};               // the layout's own result dtype
  std::optional<Shape> logical_shape;  // nothing when the header does not tell
};

// What a whole checkpoint shows of one layout.
struct QuantFinding {
  std::string_view layout;
  std::vector<QuantMatch> matches;
  std::string evidence;  // one sentence with counts, dtypes and shapes seen
};

}  // namespace tftf
