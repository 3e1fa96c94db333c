// The document of `diff --json`.
#pragma once

#include <string>

#include "tftf/inspect/comparison.h"

namespace tftf {

// `left`, `right`: the models as they were given.
std::string comparison_json(const ComparisonReport& report, const std::string& left,
                            const std::string& right);

}  // namespace tftf
