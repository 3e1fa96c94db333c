// Reports of a lint run: text, JSON, SARIF 2.1.0, GitHub workflow commands, JUnit (spec lint-rules 2). All
// are functions of the same data; equal data gives equal bytes, on every host.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/lint/baseline.h"
#include "tftf/lint/linter.h"
#include "tftf/lint/policy.h"

namespace tftf {

// What is said of one PATH besides its issues.
struct ReportInput {
  std::string given;  // as the user wrote it
  bool is_folder = false;
  // Goes before an issue's `file` where a reader outside must find it (text, SARIF, GitHub): empty or ending
  // in '/', relative to the folder the program was started in when it lies inside, else as the user wrote it.
  std::string place;
  std::vector<LintedFile> files;
  std::vector<LintedFolder> folders;
  // Links that were not followed, since they lead out of PATH or nowhere, as paths below it.
  std::vector<std::string> skipped_links{};
};

struct LintReport {
  std::vector<ReportInput> inputs;
  IssueList issues;
  LintPolicy policy;
  std::optional<BaselineUse> baseline;  // --baseline was given
  bool with_data = false;               // the data pass was made
  bool with_base = false;               // --base was given
  std::string
      timestamp;  // ISO 8601 UTC, empty unless asked for: the only thing that differs between equal runs
};

// The rule was evaluated in this run: the policy reports it, and the data or the base model it needs were there.
bool is_rule_checked(const LintReport& report, Rule rule);

enum class ReportFormat { kText, kJson, kSarif, kGithub, kJunit };
// "text", "json", "sarif", "github", "junit".
std::string_view report_format_name(ReportFormat format);
std::optional<ReportFormat> find_report_format(std::string_view name);

struct TextStyle {
  bool colour = false;
  bool quiet = false;    // only what fails, no summary
  bool verbose = false;  // and what each rule that fired checks
};

// Issues grouped by file, severity by word and sign, then one line that says what was checked and how it
// ended.
std::string text_report(const LintReport& report, const TextStyle& style = {});
// The report object; with several PATHs `input` is a list and messages, files and folders carry their number
// in it.
std::string json_report(const LintReport& report);
// One run, all rules, at most 5,000 results (errors first).
std::string sarif_report(const LintReport& report);
// At most ten annotations of each kind, which is what GitHub shows, the totals, and everything in a folded
// group.
std::string github_report(const LintReport& report);
// A suite per file or folder, a case per rule that has issues there.
std::string junit_report(const LintReport& report);
std::string render_report(const LintReport& report, ReportFormat format, const TextStyle& style = {});

// The catalogue: one line a rule; everything about one rule; the same as data.
std::string rules_text(bool colour);
std::string rule_text(Rule rule, bool colour);
std::string rules_json();
std::string rule_json(Rule rule);

}  // namespace tftf
