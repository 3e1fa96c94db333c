// What the data say of the findings about pairs (spec colibri 10).
#pragma once

#include <vector>

#include "tftf/lint/linter.h"

namespace tftf {

// `seen`: per check of result.colibri_checks its candidates; empty where the data were not read. Takes back the findings
// of pairs that are what readers take them for, and makes errors of those that are not and fit another reading.
void judge_colibri(LintResult& result, const std::vector<std::vector<ColibriSeen>>& seen);

// A finding of CO025 about one record.
Diagnostic rans_finding(const std::string& file, const std::string& tensor, std::string_view reason,
                        std::string detail);

}  // namespace tftf
