#include "lint/report/parts.h"

#include <algorithm>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kFormats[] = {"text", "json", "sarif", "github", "junit"};

// Rules that see values: all of spec lint-rules 3.9, and those marked "Data pass" in other families.
bool needs_data(Rule rule) {
  switch (rule) {
    case Rule::CF031:
    case Rule::CF050:
    case Rule::LO014:
    case Rule::LO033:
    case Rule::QT352:
    case Rule::QT353:
    case Rule::QT355:
    case Rule::QT356:
      return true;
    default:
      return rule >= Rule::ST080 && rule <= Rule::ST088;
  }
}

bool needs_base(Rule rule) { return rule == Rule::LO010 || rule == Rule::LO011 || rule == Rule::LO030; }

}  // namespace

std::string_view report_format_name(ReportFormat format) { return kFormats[static_cast<size_t>(format)]; }

std::optional<ReportFormat> find_report_format(std::string_view name) {
  for (size_t i = 0; i < std::size(kFormats); ++i)
    if (kFormats[i] == name) return static_cast<ReportFormat>(i);
  return std::nullopt;
}

std::string render_report(const LintReport& report, ReportFormat format, const TextStyle& style) {
  switch (format) {
    case ReportFormat::kText:
      return text_report(report, style);
    case ReportFormat::kJson:
      return json_report(report);
    case ReportFormat::kSarif:
      return sarif_report(report);
    case ReportFormat::kGithub:
      return github_report(report);
    case ReportFormat::kJunit:
      return junit_report(report);
  }
  return {};
}

std::string count_text(uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string totals_text(const IssueList& list) {
  std::string out;
  for (size_t level = 0; level < list.counts.size(); ++level)
    out += (out.empty() ? "" : ", ") +
           count_text(list.counts[level], severity_name(static_cast<Severity>(level)));
  return out;
}

std::string place_of(const ReportInput& input, std::string_view file) {
  if (file == "." && !input.place.empty()) return input.place;
  return input.place + std::string(file);
}

std::string_view first_clause(std::string_view checks) {
  bool code = false;
  for (size_t at = 0; at < checks.size(); ++at) {
    if (checks[at] == '`') code = !code;
    const bool stops =
        (checks[at] == '.' || checks[at] == ';') && (at + 1 == checks.size() || checks[at + 1] == ' ');
    if (stops && !code) return checks.substr(0, at);
  }
  return checks;
}

std::string plain_template(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    const bool brace = text[at] == '{' || text[at] == '}';
    if (brace && at + 1 < text.size() && text[at + 1] == text[at]) ++at;
  }
  return out;
}

bool is_rule_checked(const LintReport& report, Rule rule) {
  return report.policy.reports(rule) && (report.with_data || !needs_data(rule)) &&
         (report.with_base || !needs_base(rule));
}

RuleCounts count_rules(const LintReport& report) {
  RuleCounts counts;
  for (const RuleInfo& info : all_rules()) {
    ++counts.total;
    if (is_rule_checked(report, info.rule))
      ++counts.checked;
    else if (report.policy.reports(info.rule))
      ++(needs_data(info.rule) ? counts.need_data : counts.need_base);
  }
  return counts;
}

std::string message_without_file(const Diagnostic& finding) {
  std::string text = message(finding);
  const std::string prefix = escape_text(finding.file) + ": ";
  return text.compare(0, prefix.size(), prefix) == 0 ? text.substr(prefix.size()) : text;
}

std::string plain_list(const LintReport& report) {
  std::string out;
  for (const Issue& issue : report.issues.issues) {
    const RuleInfo& info = rule_info(issue.finding.rule);
    out += std::string(severity_name(issue.severity)) + " " + std::string(info.id) + " " +
           std::string(info.name) + " " +
           escape_text(place_of(report.inputs[issue.input], issue.finding.file)) + ": " +
           message_without_file(issue.finding) + "\n";
  }
  for (const CutIssues& cut : report.issues.cut)
    out += "and " + std::to_string(cut.count) + " more " + std::string(rule_info(cut.rule).id) + " in " +
           escape_text(place_of(report.inputs[cut.input], cut.file)) + "\n";
  return out;
}

OrderedJson rule_object(const RuleInfo& info) {
  OrderedJson json;
  json["id"] = info.id;
  json["name"] = info.name;
  json["severity"] = static_cast<int>(info.severity);
  json["checks"] = info.checks;
  json["message"] = info.message;
  json["peers"] = info.peers;
  json["example"] = info.example;
  return json;
}

}  // namespace tftf
