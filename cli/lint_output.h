// The linter's files besides what it lints: its configuration and its report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/result.h"
#include "tftf_native/lint_tree.h"

namespace tftf::cli {

// ReportInput::place of a PATH.
std::string place_prefix(const std::string& given, bool is_folder);

// kRefusedOutput when the report would overwrite something that is linted.
Result<void> check_report_target(std::string_view option, const std::string& path,
                                 const std::vector<LintTree>& trees);
// Writes beside the target and renames; into what is no regular file (a device, a pipe) directly.
Result<void> write_report(const std::string& path, std::string_view text);

}  // namespace tftf::cli
