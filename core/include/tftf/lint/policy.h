// What the user makes of the findings: which rules, how severe, how many, what fails (spec lint-rules 1 and
// 2). Rules know nothing of this.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/diagnostic/diagnostic.h"
#include "tftf/lint/linter.h"

namespace tftf {

struct LintPolicy {
  std::vector<Rule> only;                            // empty: all rules
  std::vector<Rule> ignore;                          // empty when `only` is not
  std::vector<std::pair<Rule, Severity>> overrides;  // the last of a rule counts
  std::vector<Rule> off;                             // by severity; also among `only`
  uint64_t max_issues = 100;                         // per rule and file; 0: no limit
  Severity fail_on = Severity::kError;               // never kHint

  bool reports(Rule rule) const;
  Severity severity(Rule rule) const;
};

// "ST041,st051": ids separated by commas, in any case. kUsage for an unknown or empty one, which the message names.
Result<std::vector<Rule>> parse_rule_list(std::string_view list);
// "ST051=error": error, warning, info or hint; nothing for "off", which is the same as ignoring the rule.
Result<std::pair<Rule, std::optional<Severity>>> parse_severity_override(std::string_view text);
// "error", "warning" or "info".
Result<Severity> parse_fail_level(std::string_view text);

// A configuration file: a JSON object with any of
//   "ignore": ["ST051", …]   "only": […]   "override": {"ST041": "warning", …}   "max-issues": 0
// Levels are names, "off" among them, or the numbers 0 to 3. kUsage for anything else: unknown keys, ids and levels, equal keys,
// `only` beside `ignore`. `file` is for the message.
struct LintConfig {
  std::vector<Rule> only;
  std::vector<Rule> ignore;
  std::vector<std::pair<Rule, std::optional<Severity>>> overrides;  // nothing: off
  std::optional<uint64_t> max_issues;
};
Result<LintConfig> parse_lint_config(std::string_view file, std::string_view text);
// Puts the file's settings into `policy` where the command line, which `policy` holds, says nothing: its
// choice of rules replaces the file's as a whole, severities count rule by rule. `max_issues_given`:
// --max-issues was there.
void merge_config(LintPolicy& policy, const LintConfig& config, bool max_issues_given);

// What a user says about the policy, as words (the options of spec lint-rules 2).
struct PolicyWords {
  std::vector<std::string> only{};  // lists of ids
  std::vector<std::string> ignore{};
  std::vector<std::string> severities{};  // "ID=LEVEL"
  std::optional<uint64_t> max_issues{};
  std::string fail_on{};      // empty: error
  bool strict = false;        // fail_on warning
  std::string config_file{};  // empty: none
  std::string config_text{};
};
// kUsage for whatever contradicts itself or is unknown.
Result<LintPolicy> make_policy(const PolicyWords& words);

// A finding as it is reported.
struct Issue {
  Diagnostic finding;
  Severity severity = Severity::kError;
  uint32_t input = 0;  // which PATH
};

// How many issues of one rule in one file are left out: by the limit, or never kept (OmittedFindings).
struct CutIssues {
  uint32_t input = 0;
  std::string file;
  Rule rule{};
  uint64_t count = 0;
};

struct IssueList {
  std::vector<Issue> issues;         // by PATH, then in the order of the findings
  std::array<uint64_t, 4> counts{};  // by severity, what is left out included
  std::vector<CutIssues> cut;        // by PATH, then file by bytes, then rule
  bool truncated() const { return !cut.empty(); }
  // Something is at or above the policy's fail level.
  bool failed = false;
};

// One PATH's findings in the order of sort_findings(), and what was only counted (lint/linter.h).
struct PathFindings {
  Diagnostics findings;
  std::vector<OmittedFindings> omitted;
};
// The findings are moved from.
IssueList apply_policy(std::span<PathFindings> paths, const LintPolicy& policy);

}  // namespace tftf
