// Items of tensors that are put together from stored ones (adapter/recipe.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tftf/adapter/recipe.h"
#include "tftf/plan/plan.h"

namespace tftf::transform {

// A run of a stored tensor's bytes.
struct StoredRun {
  TensorRef tensor{};
  uint64_t begin = 0;
  uint64_t bytes = 0;
};
// The runs that are the recipe, one after the other; nothing when it is more than copied rows.
std::optional<std::vector<StoredRun>> runs_of_recipe(const AdapterRecipe& recipe);

class RecipeItems {
 public:
  explicit RecipeItems(PlanBuilder& builder, uint64_t tile_bytes)
      : builder_(builder), tile_bytes_(tile_bytes) {}
  // `stored`: where the tensors of recipe_sources() lie. They are residents, shared by all recipes that need them. The
  // item's tensor is to be set.
  Item item(std::shared_ptr<const AdapterRecipe> recipe, const std::vector<Extent>& stored, const Extent& to);

 private:
  PlanBuilder& builder_;
  uint64_t tile_bytes_;
  std::map<uint64_t, uint32_t> residents_;  // by tensor
};

}  // namespace tftf::transform
