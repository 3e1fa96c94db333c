// What every colibri folder tool needs beside its tensors: inputs of the plan, side files, the account.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tftf/plan/plan.h"
#include "transform/colibri/folder_tool.h"

namespace tftf::colibri {

inline constexpr std::string_view kCompanionReason = "companion";

class FolderFrame {
 public:
  FolderFrame(const FolderContext& folder, std::string work)
      : context(folder), builder(std::move(work), PlanOptions{.tile_bytes = folder.request.tile_bytes}) {}

  const FolderContext context;
  PlanBuilder builder;
  Account account;
  std::vector<std::string> notes;

  // The shard becomes an input of the plan when it is first asked for.
  Extent whole_input(uint32_t shard);
  Extent stored(TensorRef ref);

  // Consumed with another tensor (kCompanionReason), or left out. What is left out and is not in the output folder
  // either is still needed: its shard is no consumed one.
  void drop(TensorRef tensor, std::string reason);
  // As ShardPlanner::side().
  Result<bool> side(std::string_view name, bool required);
  void add_side(SideOutput side) { sides_.push_back(std::move(side)); }

  // Drops and side files go into the plan, layouts and what lies in the output folder into the account; then builds.
  Result<FolderPlan> finish();

 private:
  void fill_account();
  void warn_of_missing_shards();
  bool is_in_output(const std::string& name);

  std::unordered_map<uint32_t, uint32_t> input_of_;  // shard to input
  std::unordered_set<uint32_t> kept_;
  std::unordered_set<std::string_view> existing_;  // names in the output folder, once looked at
  bool looked_ = false;
  std::vector<std::pair<std::string, std::string>> dropped_;  // name, reason
  std::vector<SideOutput> sides_;
};

}  // namespace tftf::colibri
