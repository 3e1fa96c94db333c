// The report for people, and the catalogue as text.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "lint/report/parts.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/natural_order.h"
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

// A message with the numbers between the dots of names taken out: the same for every layer and expert.
std::string layerless(const std::string& text) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '.') {
      while (digit(end)) ++end;
      const char after = end < text.size() ? text[end] : ' ';
      const bool named = after == '"' || (after == '.' && end + 1 < text.size() && text[end + 1] != ' ');
      if (end > at + 1 && named) {
        out += ".#";
        at = end;
        continue;
      }
      end = at + 1;
    }
    out.append(text, at, end - at);
    at = end;
  }
  return out;
}

// What findings that say the same of several layers have in common; the message itself for others.
std::string common_text(const Diagnostic& finding) {
  Diagnostic alike = finding;
  for (auto& [name, value] : alike.values)
    if (name == "layer") value = std::string("#");
  return layerless(message(alike));
}

bool reads_before(const Issue* a, const Issue* b) {
  const Diagnostic& left = a->finding;
  const Diagnostic& right = b->finding;
  if (left.offset != right.offset) return left.offset < right.offset;
  if (left.rule != right.rule) return rule_info(left.rule).id < rule_info(right.rule).id;
  if (left.subject && right.subject) return natural_less(*left.subject, *right.subject);
  return !left.subject && right.subject;
}

// The issues of one file: those that say the same of several layers are told once.
std::string block_text(std::vector<const Issue*> issues, const TextStyle& style) {
  std::stable_sort(issues.begin(), issues.end(), reads_before);
  struct Alike {
    const Issue* first = nullptr;
    uint64_t count = 0;
  };
  std::vector<Alike> groups;
  std::map<std::tuple<Rule, Severity, std::string>, size_t> known;
  for (const Issue* issue : issues) {
    std::string pattern = common_text(issue->finding);
    if (style.verbose || pattern == message(issue->finding)) {
      groups.push_back({issue, 1});
      continue;
    }
    const auto [at, fresh] =
        known.try_emplace({issue->finding.rule, issue->severity, pattern}, groups.size());
    if (fresh) groups.push_back({issue, 0});
    ++groups[at->second].count;
  }
  std::string out;
  for (const Alike& group : groups)
    out += issue_line(*group.first, group.count > 1 ? std::to_string(group.count) + " alike, first: " : "",
                      style.colour);
  return out;
}

constexpr size_t kShownNames = 5;

// "a, b, c, and 4 more".
std::string name_list(const std::vector<std::string>& names) {
  std::string out;
  const size_t shown = names.size() <= kShownNames + 1 ? names.size() : kShownNames;
  for (size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (shown < names.size()) out += ", and " + std::to_string(names.size() - shown) + " more";
  return out;
}

std::string skipped_text(const LintReport& report) {
  std::vector<std::string> names;
  for (const ReportInput& input : report.inputs)
    for (const std::string& link : input.skipped_links) names.push_back(escape_text(place_of(input, link)));
  if (names.empty()) return {};
  return "not followed: " + count_text(names.size(), "link") +
         " out of the folder or to nothing: " + name_list(names) + "\n";
}

std::string baseline_summary(const LintReport& report) {
  if (!report.baseline) return {};
  std::string out = count_text(report.baseline->known, "finding") + " known by the baseline";
  uint64_t stale = 0;
  std::vector<std::string> names;
  for (const BaselineEntry& entry : report.baseline->stale) {
    stale += entry.count;
    names.push_back(escape_text(entry.rule) + " " + escape_text(entry.file) +
                    (entry.subject ? " " + quote_name(*entry.subject) : ""));
  }
  if (stale != 0)
    out += "; " + std::to_string(stale) + " of it not found any more: " + name_list(names) +
           " (--write-baseline writes it anew)";
  return out + ".\n";
}

// What was read of the PATHs: files of weights, and where there are none the indexes and folders instead.
std::string checked_text(const LintReport& report) {
  uint64_t files = 0, indexes = 0, folders = 0;
  for (const ReportInput& input : report.inputs) {
    files += input.files.size();
    folders += input.folders.size();
    for (const LintedFolder& folder : input.folders) indexes += folder.indexes.size();
  }
  if (files != 0) return ", " + count_text(files, "file");
  std::string out;
  if (indexes != 0) out += ", " + std::to_string(indexes) + (indexes == 1 ? " index" : " indexes");
  if (folders != 0) out += ", " + count_text(folders, "folder");
  return out + "; no .safetensors file was found";
}

std::string summary(const LintReport& report, bool colour) {
  const RuleCounts rules = count_rules(report);
  const IssueList& list = report.issues;
  const bool clean = std::all_of(list.counts.begin(), list.counts.end(), [](uint64_t n) { return n == 0; });
  std::string out = list.failed ? painted("✖ failed", "1;31", colour) : painted("✔ passed", "1;32", colour);
  out += ": " + (clean ? "no findings" : totals_text(list)) + ".\n";
  out += std::to_string(rules.checked) + " of " + std::to_string(rules.total) + " rules checked";
  std::string more;
  if (rules.need_data != 0) more = std::to_string(rules.need_data) + " more need --data";
  if (rules.need_base != 0)
    more += (more.empty() ? "" : ", ") + std::to_string(rules.need_base) +
            (more.empty() ? " more need" : "") + " --base";
  if (!more.empty()) out += " (" + more + ")";
  out += checked_text(report);
  if (report.policy.fail_on != Severity::kError)
    out += "; fails from " + std::string(severity_name(report.policy.fail_on)) + " on";
  out += ".";
  if (!report.timestamp.empty()) out += " " + report.timestamp;
  return out + "\n" + baseline_summary(report) + skipped_text(report);
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
  using Place = std::pair<uint32_t, std::string>;  // PATH and file
  std::map<Place, std::vector<const Issue*>> issues;
  std::map<Place, std::string> blocks;
  std::set<Rule> fired;
  for (const Issue& issue : report.issues.issues) {
    fired.insert(issue.finding.rule);
    if (shown(issue.severity) && spreads.count(issue.finding.rule) == 0)
      issues[{issue.input, issue.finding.file}].push_back(&issue);
  }
  for (auto& [place, list] : issues) blocks[place] = block_text(std::move(list), style);
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
