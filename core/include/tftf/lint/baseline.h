// A baseline: findings that are known and accepted, so that a run tells what is new (as other linters have it).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/lint/policy.h"

namespace tftf {

// So many findings of a rule about one tensor (or key, module …) of a file.
struct BaselineEntry {
  std::string rule;                    // its id; rules of other versions may be unknown
  std::string file;                    // as reports for readers outside name it: place and path
  std::optional<std::string> subject;  // exact text
  uint64_t count = 1;
};

struct BaselineUse {
  uint64_t known = 0;  // findings that the baseline holds, and the report therefore does not
  std::vector<BaselineEntry>
      stale;  // what it holds and was looked for and not found, with the number that is too much
};

// What becomes of the findings of one PATH: `place` as in ReportInput, and whether a file of the baseline belongs to it.
struct BaselineScope {
  std::string place;
  std::string only_file;  // PATH is a file: its name in `findings`; empty for a folder
};

// kUsage for what is no baseline. `file` is for the message.
Result<std::vector<BaselineEntry>> parse_baseline(std::string_view file, std::string_view text);

// The file's text: entries in the order of file, rule and subject, so that it can be compared and merged.
// `scopes` are parallel to `paths`; what the policy does not report is left out.
std::string baseline_text(std::span<const PathFindings> paths, std::span<const BaselineScope> scopes,
                          const LintPolicy& policy);

// Takes the known findings out of `paths`. `checked`: whether a rule was evaluated at all; entries of other rules and of
// files outside of all scopes are not stale.
BaselineUse use_baseline(std::span<PathFindings> paths, std::span<const BaselineScope> scopes,
                         std::span<const BaselineEntry> entries, const std::function<bool(Rule)>& checked);

}  // namespace tftf
