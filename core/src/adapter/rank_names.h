// What the names of a sharded adapter's files say about their ranks.
#pragma once

#include <span>
#include <string>

#include "tftf/base/result.h"

namespace tftf {

// Refused (kRefusedMissing): names that count the ranks ("rank_0_of_4", "rank0_world_size_4") where another number of
// files is given, and names that differ in one number alone (the rank) which leaves one out between the lowest and the
// highest. Names that say nothing are fine: ranks may begin anywhere (spec tftf 2.8).
Result<void> check_rank_names(std::span<const std::string> files);

}  // namespace tftf
