// What resizing and combining have in common: modules whose pairs become one new pair each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transform/lowrank/adapter_file.h"
#include "transform/lowrank/factor_ops.h"
#include "transform/lowrank/pairs.h"

namespace tftf::lowrank {

struct NewModule {
  std::string module;  // as stored
  std::string path;    // for a configuration
  std::string up_name, down_name, alpha_name;
  DType alpha_dtype = DType::F32;
  std::shared_ptr<FactorTask> task{};
  std::vector<Extent> in{};
  uint64_t old_rank = 0;
  double scale = 1;  // s of the new pair
  Shape kernel{}, up_tail{};
  bool stored_alpha = false;  // alpha is written
};

struct NewAdapter {
  Announcement announcement{};
  std::vector<NewModule> modules{};
  struct Copied {
    std::string name;
    DType dtype{};
    Shape shape{};
    Extent from{};
  };
  std::vector<Copied> copies{};
};

// A plan that measures first where there is something to measure.
Result<AdapterToolPlan> plan_new_adapter(std::shared_ptr<NewAdapter> made, PlanBuilder builder,
                                         PlanInputs& inputs, Account account,
                                         const AdapterToolRequest& request);

// The account's beginning. `tensors_in`: of all inputs.
Account begin_account(const AdapterToolRequest& request, uint64_t tensors_in, std::string file_name);

// Memory for what the measuring steps find, as long as all of it is small.
void give_memos(std::vector<NewModule>& modules, PlanBuilder& builder);

}  // namespace tftf::lowrank
