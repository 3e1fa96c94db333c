// What the report formats share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tftf/base/json_text.h"
#include "tftf/lint/report.h"

namespace tftf {

// "1 error", "2 errors", "0 errors".
std::string count_text(uint64_t count, std::string_view noun);
// "2 errors, 0 warnings, 1 info, 0 hints".
std::string totals_text(const IssueList& list);

// Where `file` of an input is, seen from outside: `place` joined with it ("." is the place itself). Exact
// text.
std::string place_of(const ReportInput& input, std::string_view file);

// The first clause of what a rule checks: up to a '.' or ';' outside `code`.
std::string_view first_clause(std::string_view checks);

// A message template for people: doubled braces single.
std::string plain_template(std::string_view text);

// How many rules were evaluated, of those that the policy reports; and how many of the others wait for an
// option.
struct RuleCounts {
  uint64_t checked = 0;
  uint64_t total = 0;
  uint64_t need_data = 0;
  uint64_t need_base = 0;
};
RuleCounts count_rules(const LintReport& report);

// "model.safetensors: 4 bytes after …" without the repeated file where the issue's place stands before it
// anyway.
std::string message_without_file(const Diagnostic& finding);

// One line an issue: "error ST041 TRAILING_BYTES models/a.safetensors: message", cut issues counted at the
// end.
std::string plain_list(const LintReport& report);

// A rule as data: id, name, severity, checks, message, peers, example.
OrderedJson rule_object(const RuleInfo& info);

}  // namespace tftf
