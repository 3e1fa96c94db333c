// What a path names.
#pragma once

#include <string>

#include "tftf/base/result.h"

namespace tftf {

enum class PathKind { kNothing, kDangling, kFile, kFolder, kOther };

// Links are followed; kDangling is a link to nothing. Only a name that is not there is nothing: whatever else keeps it
// from being looked at (kIoRead) says nothing about what is there.
Result<PathKind> path_kind(const std::string& path);

}  // namespace tftf
