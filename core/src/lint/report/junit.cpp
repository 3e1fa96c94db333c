// JUnit XML (spec lint-rules 2.3).
#include <algorithm>
#include <map>
#include <tuple>

#include "lint/report/parts.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

// `text` (already escaped by base/escape.h, or from our tables) for XML 1.0. What the first escaping leaves
// and XML does not have: U+FFFE, U+FFFF; line feeds stand in texts only.
std::string xml(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, point.length);
    at += point.length;
    if (point.value == 0xFFFE || point.value == 0xFFFF)
      out += point.value == 0xFFFE ? "\\u{FFFE}" : "\\u{FFFF}";
    else if (bytes == "&")
      out += "&amp;";
    else if (bytes == "<")
      out += "&lt;";
    else if (bytes == ">")
      out += "&gt;";
    else if (bytes == "\"")
      out += "&quot;";
    else
      out += bytes;
  }
  return out;
}

// What one rule has to say in one file.
struct Case {
  Severity severity{};
  std::vector<std::string> messages;
  uint64_t cut = 0;
};

struct Suite {
  bool is_folder = false;
  std::map<std::pair<std::string, Rule>, Case> cases;  // by file and rule
};

// A weight file is its own suite, everything else belongs to its folder's.
std::string suite_of(const ReportInput& input, const std::string& file) {
  const bool own = std::any_of(input.files.begin(), input.files.end(),
                               [&](const LintedFile& f) { return f.path == file; });
  if (own || !input.is_folder || file == "." || (!file.empty() && file.back() == '/')) return file;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash + 1);
}

bool belongs(Rule rule, bool is_folder) {
  const std::string_view family = rule_info(rule).id.substr(0, 2);
  if (family == "LO" || family == "CO" || family == "QT") return true;
  return (family == "ST") != is_folder;
}

std::string case_xml(const std::string& file, Rule rule, const Case& one, bool failing) {
  const RuleInfo& info = rule_info(rule);
  std::string text;
  for (const std::string& line : one.messages) text += xml(line) + "\n";
  if (one.cut != 0) text += "and " + std::to_string(one.cut) + " more\n";
  std::string out = "    <testcase classname=\"" + xml(escape_text(file)) + "\" name=\"" +
                    std::string(info.id) + " " + std::string(info.name) + "\">\n";
  if (failing)
    out += "      <failure type=\"" + std::string(info.id) + "\" message=\"" + xml(one.messages[0]) + "\">" +
           text + "</failure>\n";
  else
    out += "      <system-out>" + std::string(severity_name(one.severity)) + "\n" + text + "</system-out>\n";
  return out + "    </testcase>\n";
}

}  // namespace

std::string junit_report(const LintReport& report) {
  using Key = std::pair<size_t, std::string>;
  std::map<Key, Suite> suites;
  for (size_t i = 0; i < report.inputs.size(); ++i) {
    for (const LintedFile& file : report.inputs[i].files) suites[{i, file.path}];
    for (const LintedFolder& folder : report.inputs[i].folders) suites[{i, folder.folder}].is_folder = true;
  }
  for (const Issue& issue : report.issues.issues) {
    const std::string name = suite_of(report.inputs[issue.input], issue.finding.file);
    Suite& suite = suites[{issue.input, name}];
    if (name == "." || (!name.empty() && name.back() == '/')) suite.is_folder = true;
    Case& one = suite.cases[{issue.finding.file, issue.finding.rule}];
    one.severity = issue.severity;
    one.messages.push_back(message(issue.finding));
  }
  for (const CutIssues& cut : report.issues.cut)
    suites[{cut.input, suite_of(report.inputs[cut.input], cut.file)}].cases[{cut.file, cut.rule}].cut =
        cut.count;

  std::string body;
  uint64_t all_tests = 0;
  uint64_t all_failures = 0;
  for (const auto& [key, suite] : suites) {
    uint64_t tests = 0;
    for (const RuleInfo& info : all_rules())
      if (is_rule_checked(report, info.rule) && belongs(info.rule, suite.is_folder)) ++tests;
    const std::string place = xml(escape_text(place_of(report.inputs[key.first], key.second)));
    std::string cases;
    uint64_t failures = 0;
    for (const auto& [where, one] : suite.cases) {
      const bool failing = one.severity <= report.policy.fail_on;
      failures += failing ? 1 : 0;
      cases += case_xml(place_of(report.inputs[key.first], where.first), where.second, one, failing);
    }
    if (suite.cases.empty()) cases = "    <testcase classname=\"" + place + "\" name=\"container\"/>\n";
    tests = std::max<uint64_t>({tests, suite.cases.size(), 1});
    body += "  <testsuite name=\"" + place + "\" tests=\"" + std::to_string(tests) + "\" failures=\"" +
            std::to_string(failures) + "\" errors=\"0\" skipped=\"0\"" +
            (report.timestamp.empty() ? "" : " timestamp=\"" + report.timestamp + "\"") + ">\n" + cases +
            "  </testsuite>\n";
    all_tests += tests;
    all_failures += failures;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tftf-lint\" tests=\"" +
         std::to_string(all_tests) + "\" failures=\"" + std::to_string(all_failures) + "\" errors=\"0\">\n" +
         body + "</testsuites>\n";
}

}  // namespace tftf
