// One colibri folder tool: what becomes of each tensor of the source.
#pragma once

#include <string>
#include <vector>

#include "tftf/checkpoint/small_values.h"
#include "tftf/transform/colibri/folder_plan.h"
#include "transform/colibri/folder_source.h"

namespace tftf::colibri {

// What a tool plans with.
struct FolderContext {
  const FolderSource& source;
  const Checkpoint* existing;  // the output folder; null: not there
  SmallValues& values;
  const FolderRequest& request;
  const std::vector<std::string>& header_sha256;  // by shard number; empty texts while they are not known yet
};

class FolderTool {
 public:
  virtual ~FolderTool() = default;
  // "repack-fp8"
  virtual std::string command() const = 0;
  // Makes the plan or refuses. Called again from the start while values or headers are still wanted; what it
  // gave before is then thrown away.
  virtual Result<FolderPlan> plan(const FolderContext& context) const = 0;
};

}  // namespace tftf::colibri
