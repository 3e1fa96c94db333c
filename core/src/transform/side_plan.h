// The small files beside the result: which are copied, and what config.json says then.
#pragma once

#include <string>
#include <vector>

#include "stream.h"
#include "tftf/transform/config_edit.h"
#include "tftf/transform/planner.h"

namespace tftf::transform {

struct SidePlan {
  std::vector<SideOutput> files;      // none for a single file
  std::vector<ConfigChange> changes;  // also for a single file, which takes no config.json along
  std::vector<std::string> warnings;
};

// Errors: kIoRead for a file that cannot be read, kRefusedConfig for a configuration that has to be changed and is
// no JSON.
Result<SidePlan> plan_sides(const Stream& stream, uint64_t left_quantised, const TransformRequest& request);

}  // namespace tftf::transform
