// Workflow commands of GitHub Actions (spec lint-rules 2.2).
#include <array>

#include "lint/report/parts.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// GitHub shows ten annotations of each kind per step; the totals are one of the notices.
constexpr uint64_t kMaxAnnotations = 10;
constexpr uint64_t kMaxNotices = 9;

// The runner takes "##[command]" anywhere in a line for a command of the older kind.
std::string disarmed(std::string text) {
  for (size_t at = text.find("##["); at != std::string::npos; at = text.find("##[", at))
    text.replace(at, 3, "##\\u{005B}");
  return text;
}

std::string escaped_data(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '%')
      out += "%25";
    else if (c == '\r')
      out += "%0D";
    else if (c == '\n')
      out += "%0A";
    else
      out += c;
  }
  return disarmed(out);
}

std::string escaped_property(std::string_view text) {
  std::string out;
  for (char c : escaped_data(text)) {
    if (c == ':')
      out += "%3A";
    else if (c == ',')
      out += "%2C";
    else
      out += c;
  }
  return out;
}

std::string annotation(const LintReport& report, const Issue& issue, std::string_view command) {
  const RuleInfo& info = rule_info(issue.finding.rule);
  std::string out = "::" + std::string(command) + " file=" +
                    escaped_property(escape_text(place_of(report.inputs[issue.input], issue.finding.file)));
  if (issue.finding.line != 0)
    out += ",line=" + std::to_string(issue.finding.line) + ",col=" + std::to_string(issue.finding.column);
  out += ",title=" + escaped_property(std::string(info.id) + " " + std::string(info.name));
  return out + "::" + escaped_data(message(issue.finding)) + "\n";
}

}  // namespace

std::string github_report(const LintReport& report) {
  constexpr std::string_view kCommands[] = {"error", "warning", "notice", "notice"};
  std::array<uint64_t, 3> sent{};
  std::string out;
  for (const Issue& issue : report.issues.issues) {
    const size_t kind = std::min<size_t>(static_cast<size_t>(issue.severity), 2);
    if (sent[kind] == (kind == 2 ? kMaxNotices : kMaxAnnotations)) continue;
    ++sent[kind];
    out += annotation(report, issue, kCommands[kind]);
  }
  const RuleCounts rules = count_rules(report);
  out += "::notice title=tftf-lint::" + std::string(report.issues.failed ? "failed: " : "passed: ") +
         totals_text(report.issues) + "; " + count_text(rules.checked, "rule") + " checked.\n";
  if (!report.issues.issues.empty())
    out += "::group::All findings of tftf-lint\n" + disarmed(plain_list(report)) + "::endgroup::\n";
  if (!report.timestamp.empty()) out += report.timestamp + "\n";
  return out;
}

}  // namespace tftf
