// An index file's text as data.
#pragma once

#include <string>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// Never fails: what is wrong stands in `problem` and `defect`.
ShardIndex read_index(std::string file, std::string text);

}  // namespace tftf
