// A module in work: its tensors, what the configuration says of it, and how they fit together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/ct/layout.h"

namespace tftf::ct {

struct Module {
  std::string_view name;  // without ".weight"
  QuantMatch match;
  Layout layout{};
  std::vector<const Args*> candidates{};  // of the configuration, best first
  const Args* args = nullptr;             // the one that the tensors agree with so far
  bool agrees = true;                     // in everything
};

struct FitContext {
  const Checkpoint& checkpoint;
  std::optional<uint64_t> version{};  // that the configuration names
  const TensorInfo& info(TensorRef tensor) const { return checkpoint.info(tensor); }
  const TensorInfo* part(const Module& module, std::string_view role) const {
    const TensorRef* found = module.match.find(role);
    return found == nullptr ? nullptr : &info(*found);
  }
};

// The shape from the configuration, when it and the packed tensor agree: one read less per module of models with tens of
// thousands of them.
std::optional<Shape> computed_shape(const FitContext& from, const Module& module);
// These fill module.layout, and return what does not fit: a phrase with expected and found, or nothing.
Fault fit_packed(const FitContext& from, Module& module);
// Groups of 16 (NVFP4) or 32 (MX) under scales of a byte.
Fault fit_small_groups(const FitContext& from, Module& module, uint64_t group);
Fault fit_sparse(const FitContext& from, Module& module);
// One code per element; `dense`: they are the values.
Fault fit_elements(const FitContext& from, Module& module, bool dense, bool small_groups);

}  // namespace tftf::ct
