// The report for people, and the catalogue as text.
#include <algorithm>
#include <map>
#include <set>

#include "lint/report/parts.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint64_t kWidth = 100;  // of explanations

struct Look {
  std::string_view sign;
  std::string_view colour;  // SGR parameters
};
constexpr Look kLooks[] = {{"✖", "1;31"}, {"▲", "33"}, {"ℹ", "36"}, {"·", "2"}};

std::string painted(std::string_view text, std::string_view colour, bool on) {
  if (!on) return std::string(text);
  return "\x1b[" + std::string(colour) + "m" + std::string(text) + "\x1b[0m";
}

std::string padded(std::string_view text, uint64_t width) {
  std::string out(text);
  for (uint64_t have = count_code_points(text); have < width; ++have) out += ' ';
  return out;
}

// Words of `text`, a first line after `head` and further lines under it, none longer than kWidth if possible.
std::string wrapped(std::string_view head, std::string_view text) {
  const uint64_t indent = count_code_points(head);
  std::string out(head);
  uint64_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, space - at);
    const uint64_t length = count_code_points(word);
    if (column > indent && column + 1 + length > kWidth) {
      out += "\n" + std::string(to_size(indent), ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    at = space + 1;
  }
  return out + "\n";
}

std::string issue_line(const Issue& issue, const std::string& before, bool colour) {
  const RuleInfo& info = rule_info(issue.finding.rule);
  const Look& look = kLooks[static_cast<size_t>(issue.severity)];
  const std::string level = std::string(look.sign) + " " + std::string(severity_name(issue.severity));
  std::string line = "  " + painted(padded(level, 9), look.colour, colour) + "  " + std::string(info.id) +
                     " " + painted(info.name, "2", colour) + "  " + before +
                     message_without_file(issue.finding);
  if (issue.finding.line != 0)
    line += painted(" (line " + std::to_string(issue.finding.line) + ", column " +
                        std::to_string(issue.finding.column) + ")",
                    "2", colour);
  return line + "\n";
}

// An info or hint that is the same fact about every file of a large model is told once.
constexpr uint64_t kManyFiles = 4;
struct Spread {
  uint64_t files = 0;
  const Issue* first = nullptr;
};

std::map<Rule, Spread> find_spreads(const LintReport& report) {
  std::map<Rule, Spread> spreads;
  std::map<Rule, const Issue*> last;
  for (const Issue& issue : report.issues.issues) {
    if (issue.severity < Severity::kInfo) continue;
    Spread& spread = spreads[issue.finding.rule];
    const Issue*& before = last[issue.finding.rule];
    if (spread.first == nullptr) spread.first = &issue;
    if (before == nullptr || before->input != issue.input || before->finding.file != issue.finding.file)
      ++spread.files;
    before = &issue;
  }
  for (auto it = spreads.begin(); it != spreads.end();)
    it = it->second.files < kManyFiles ? spreads.erase(it) : std::next(it);
  return spreads;
}

std::string summary(const LintReport& report, bool colour) {
  const RuleCounts rules = count_rules(report);
  const IssueList& list = report.issues;
  const bool clean = std::all_of(list.counts.begin(), list.counts.end(), [](uint64_t n) { return n == 0; });
  std::string out = list.failed ? painted("✖ failed", "1;31", colour) : painted("✔ passed", "1;32", colour);
  out += ": " + (clean ? "no findings" : totals_text(list)) + ".\n";
  uint64_t files = 0;
  for (const ReportInput& input : report.inputs) files += input.files.size();
  out += std::to_string(rules.checked) + " of " + std::to_string(rules.total) + " rules checked";
  std::string more;
  if (rules.need_data != 0) more = std::to_string(rules.need_data) + " more need --data";
  if (rules.need_base != 0)
    more += (more.empty() ? "" : ", ") + std::to_string(rules.need_base) +
            (more.empty() ? " more need" : "") + " --base";
  if (!more.empty()) out += " (" + more + ")";
  out += files == 0 ? "; no .safetensors file was found" : ", " + count_text(files, "file");
  if (report.policy.fail_on != Severity::kError)
    out += "; fails from " + std::string(severity_name(report.policy.fail_on)) + " on";
  out += ".";
  if (!report.timestamp.empty()) out += " " + report.timestamp;
  return out + "\n";
}

std::string explanation(const RuleInfo& info, bool colour) {
  std::string out = painted(std::string(info.id) + " " + std::string(info.name), "1", colour) + " (" +
                    std::string(severity_name(info.severity)) + ")\n";
  out += wrapped("  checks   ", info.checks);
  out += wrapped("  says     ", plain_template(info.message));
  if (info.peers != "-") out += wrapped("  readers  ", info.peers);
  if (!info.example.empty()) out += wrapped("  example  ", info.example);
  return out;
}

}  // namespace

std::string text_report(const LintReport& report, const TextStyle& style) {
  const auto shown = [&](Severity severity) { return !style.quiet || severity <= report.policy.fail_on; };
  std::map<Rule, Spread> spreads;
  if (!style.verbose) spreads = find_spreads(report);
  std::map<std::pair<uint32_t, std::string>, std::string> blocks;  // by PATH and file
  std::set<Rule> fired;
  for (const Issue& issue : report.issues.issues) {
    fired.insert(issue.finding.rule);
    if (shown(issue.severity) && spreads.count(issue.finding.rule) == 0)
      blocks[{issue.input, issue.finding.file}] += issue_line(issue, "", style.colour);
  }
  for (const CutIssues& cut : report.issues.cut) {
    const std::string text =
        "… and " + std::to_string(cut.count) + " more " + std::string(rule_info(cut.rule).id);
    if (shown(report.policy.severity(cut.rule)) && spreads.count(cut.rule) == 0)
      blocks[{cut.input, cut.file}] += "  " + painted(text, "2", style.colour) + "\n";
  }
  std::string out;
  for (const auto& [where, lines] : blocks)
    out += painted(escape_text(place_of(report.inputs[where.first], where.second)), "1", style.colour) +
           "\n" + lines + (style.quiet ? "" : "\n");
  std::string folded;
  for (const auto& [rule, spread] : spreads) {
    if (!shown(spread.first->severity)) continue;
    const std::string place =
        escape_text(place_of(report.inputs[spread.first->input], spread.first->finding.file));
    folded += issue_line(*spread.first, std::to_string(spread.files) + " files, first " + place + ": ",
                         style.colour);
  }
  if (!folded.empty())
    out += painted("In many files (-v shows all)", "1", style.colour) + "\n" + folded +
           (style.quiet ? "" : "\n");
  if (style.quiet) return out;
  if (style.verbose)
    for (Rule rule : fired) out += explanation(rule_info(rule), style.colour) + "\n";
  return out + summary(report, style.colour);
}

std::string rules_text(bool colour) {
  uint64_t width = 0;
  for (const RuleInfo& info : all_rules()) width = std::max<uint64_t>(width, info.name.size());
  std::string out;
  for (const RuleInfo& info : all_rules()) {
    const Look& look = kLooks[static_cast<size_t>(info.severity)];
    out += std::string(info.id) + "  " +
           painted(padded(severity_name(info.severity), 7), look.colour, colour) + "  " +
           padded(info.name, width) + "  " + std::string(first_clause(info.checks)) + "\n";
  }
  return out;
}

std::string rule_text(Rule rule, bool colour) { return explanation(rule_info(rule), colour); }

}  // namespace tftf
