// Pairs of experts between their two forms: what both ways share.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapter/fit_modules.h"

namespace tftf::fitting {

inline constexpr std::array<ExpertName::Part, 3> kExpertParts = {
    ExpertName::Part::kGate, ExpertName::Part::kUp, ExpertName::Part::kDown};
inline std::string_view expert_part_name(const ExpertKind& kind, ExpertName::Part part) {
  return part == ExpertName::Part::kGate ? kind.gate : part == ExpertName::Part::kUp ? kind.up : kind.down;
}

// A rectangle of a stored factor, whose rows and columns may be some way apart there and in the result.
struct Cut {
  TensorRef source{};
  uint64_t width = 0;  // columns of the factor
  uint64_t row = 0, col = 0, row_step = 1, col_step = 1;
  bool transposed = false;
};
struct Place {
  uint64_t row = 0, col = 0, row_step = 1, col_step = 1;
};

// Puts it into a recipe, as rows x cols elements of the result.
void put_cut(AdapterRecipe& into, const Cut& cut, uint64_t rows, uint64_t cols, const Place& place);

// The pairs of the experts of one container, one by one.
struct SplitExperts {
  const ExpertKind* kind = nullptr;
  std::string prefix{};
  NameLayout under{};
  std::string container{};                                   // path of the split form
  std::map<uint64_t, std::array<const Unit*, 3>> experts{};  // by number; gate, up, down
};

// What is made, and with what.
struct ExpertFit {
  Input& input;
  const FitBase* base = nullptr;  // null: there is none
  const std::optional<ModelEntry>& entry;
  std::optional<LayoutNames> names{};
  std::vector<FittedPair> pairs{};
  bool pending = false;  // values are still to come

  // The form that a container is to have: what was asked for, the base's, else its own.
  ExpertForm wanted(const BaseExperts* there, ExpertForm own) const;
  // s of a module or parameter by its name in the adapter, and alpha for another rank with the same s and no root.
  Result<double> scale_of(const std::string& path, uint64_t rank) const;
  Result<double> alpha_of(const std::string& path, uint64_t rank, uint64_t new_rank) const;
  // The unit's only pair as it is.
  Result<void> keep(const Unit& unit);
};

// A container whose parameters are adapted by a pair each.
Result<void> fit_flat_experts(ExpertFit& fit, const Unit& unit, const ExpertName& name);
// One whose experts are adapted one by one.
Result<void> fit_split_experts(ExpertFit& fit, const SplitExperts& set);

}  // namespace tftf::fitting
