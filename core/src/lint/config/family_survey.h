// What a folder stores of a family, counted in one walk over its tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/config/family_names.h"
#include "tftf/lint/config_rules.h"

namespace tftf {

struct StoredExpert {
  uint32_t layer = 0;
  uint32_t expert = 0;
  uint64_t members = 0;  // bit per entry of FamilyStack::experts
};

struct StoredStack {
  std::map<uint32_t, uint64_t> layers;  // number → bit per entry of FamilyStack::names
  std::vector<StoredExpert> experts;    // by layer and expert, each once
  // Last stored layer number + 1.
  uint64_t height() const { return layers.empty() ? 0 : uint64_t{layers.rbegin()->first} + 1; }
  std::span<const StoredExpert> experts_of(uint32_t layer) const;
};

struct FamilySurvey {
  std::string_view wrapper;         // the prefix that was cut off every name (rule CF028), else empty
  std::vector<FamilyPlace> places;  // parallel to the tensors
  std::vector<StoredStack> stacks;  // parallel to the family's
  uint64_t top = 0;                 // bit per top entry
  bool prefixed = false;            // some name has the family's optional prefix
  std::optional<size_t> head;       // positions of the tensors with exactly these names
  std::optional<size_t> embedding;
  bool head_stored = false;  // also by companions
};

// `companions` as in find_place.
FamilySurvey survey_family(const Family& family, std::span<const ConfigTensor> tensors, bool companions);

// The layer of a tensor that holds all of its experts one after the other: "PREFIX" + number + "." + the stack's prefix of
// experts, as released or as transformers 5 has it, + one of the known names.
std::optional<uint32_t> fused_layer(const FamilyStack& stack, const ConfigTensor& tensor,
                                    std::string_view prefix);

// By layer such a tensor, where there is one.
std::map<uint32_t, const ConfigTensor*> fused_experts(const FamilyStack& stack,
                                                      std::span<const ConfigTensor> tensors,
                                                      std::string_view prefix);

// Names that a layer lacks of the table; `bits`: what it stores, as in StoredStack::layers.
std::vector<std::string> missing_in_layer(const FamilyStack& stack, const StoredStack& stored, uint32_t layer,
                                          uint64_t bits);

}  // namespace tftf
