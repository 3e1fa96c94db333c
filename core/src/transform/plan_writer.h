// The second half of planning: a stream whose pipes have all been applied becomes outputs, items and side files.
#pragma once

#include <string>
#include <vector>

#include "stream.h"
#include "tftf/quant/format.h"
#include "tftf/transform/planner.h"

namespace tftf::transform {

// `header_sha256`: by shard. `work`: the plan's first line, command and pipes.
Result<Transform> write_plan(Stream stream, const LayoutReport& layouts,
                             const std::vector<std::string>& header_sha256, const TransformRequest& request,
                             const std::string& work);

}  // namespace tftf::transform
