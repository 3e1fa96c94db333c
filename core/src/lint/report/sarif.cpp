// SARIF 2.1.0 (spec lint-rules 2.1; OASIS Standard, sections 3.13 to 3.30).
#include <algorithm>
#include <array>

#include "lint/report/parts.h"
#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"
#include "tftf/base/version.h"

namespace tftf {
namespace {

// GitHub shows no more of a run.
constexpr size_t kMaxResults = 5000;

std::string_view level_of(Severity severity) {
  constexpr std::string_view kLevels[] = {"error", "warning", "note", "note"};
  return kLevels[static_cast<size_t>(severity)];
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

OrderedJson rule_descriptor(const RuleInfo& info) {
  const std::string anchor = std::string(documentation_uri()) + "/rules.md#" + lower(info.id);
  std::string help = std::string(info.checks);
  if (info.peers != "-") help += "\n\nReaders: " + std::string(info.peers);
  if (!info.example.empty()) help += "\n\nExample: " + std::string(info.example);
  OrderedJson out;
  out["id"] = info.id;
  out["name"] = info.name;
  out["shortDescription"] = {{"text", first_clause(info.checks)}};
  out["fullDescription"] = {{"text", info.checks}};
  out["helpUri"] = anchor;
  out["help"] = {{"text", help}, {"markdown", help}};
  out["defaultConfiguration"] = {{"level", level_of(info.severity)}};
  out["properties"] = {{"severity", severity_name(info.severity)}};
  return out;
}

// RFC 3986: all but unreserved characters and '/'. Bytes that are no UTF-8 are kept this way too.
std::string percent_encoded(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == '/';
    const auto byte = static_cast<unsigned char>(c);
    if (plain)
      out += c;
    else
      (out += '%') += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

OrderedJson artifact_location(const ReportInput& input, std::string_view file) {
  std::string place = place_of(input, file);
  if (place == ".") place = "./";
  OrderedJson out;
  if (!place.empty() && place[0] == '/') {
    out["uri"] = "file://" + percent_encoded(place);
  } else {
    out["uri"] = percent_encoded(place);
    out["uriBaseId"] = "SRCROOT";
  }
  return out;
}

std::optional<uint64_t> value_of(const Diagnostic& finding, std::string_view name) {
  for (const auto& [key, value] : finding.values)
    if (const uint64_t* number = std::get_if<uint64_t>(&value); number && key == name) return *number;
  return std::nullopt;
}

// Bytes the finding is about from its offset on: what the rule counts, else the one byte it points at.
uint64_t byte_length(const Diagnostic& finding) {
  std::optional<uint64_t> length;
  if (finding.rule == Rule::ST019 || finding.rule == Rule::ST041) length = value_of(finding, "count");
  if (finding.rule == Rule::ST042) {
    const std::optional<uint64_t> begin = value_of(finding, "begin");
    const std::optional<uint64_t> end = value_of(finding, "end");
    if (begin && end && *end > *begin) length = *end - *begin;
  }
  return length.value_or(1);
}

OrderedJson region_of(const Issue& issue) {
  OrderedJson out;
  if (issue.finding.line != 0) {
    out["startLine"] = json_integer(issue.finding.line);
    out["startColumn"] = json_integer(issue.finding.column);
    return out;
  }
  out["startLine"] = 1;  // code scanning shows no result without it, binary files included
  if (issue.finding.offset) {
    // Numbers here, never text: the schema wants integers, and no file is longer than 2^63.
    out["byteOffset"] = *issue.finding.offset;
    out["byteLength"] = byte_length(issue.finding);
  }
  return out;
}

std::string fingerprint(const Diagnostic& finding) {
  std::string text(rule_info(finding.rule).id);
  text += '\0';
  text += finding.file;
  text += '\0';
  text += finding.subject.value_or("");
  return sha256_hex(text).substr(0, 16);
}

OrderedJson result_of(const LintReport& report, const Issue& issue) {
  const Diagnostic& finding = issue.finding;
  OrderedJson location;
  location["physicalLocation"] = {
      {"artifactLocation", artifact_location(report.inputs[issue.input], finding.file)},
      {"region", region_of(issue)}};
  if (finding.subject) {
    OrderedJson logical;
    logical["name"] = *finding.subject;
    logical["kind"] = "resource";
    location["logicalLocations"] = OrderedJson::array({std::move(logical)});
  }
  OrderedJson out;
  out["ruleId"] = rule_info(finding.rule).id;
  out["ruleIndex"] = static_cast<int>(finding.rule);
  out["level"] = level_of(issue.severity);
  out["message"] = {{"text", message(finding)}};
  out["locations"] = OrderedJson::array({std::move(location)});
  out["partialFingerprints"] = {{"tftf/v1", fingerprint(finding)}};
  out["properties"] = {{"severity", severity_name(issue.severity)}};
  return out;
}

// Which issues become results: all, or as many as there is room for, the most severe first; in report order.
std::vector<bool> chosen_issues(const std::vector<Issue>& issues) {
  std::vector<bool> chosen(issues.size());
  size_t room = kMaxResults;
  for (Severity severity : {Severity::kError, Severity::kWarning, Severity::kInfo, Severity::kHint})
    for (size_t i = 0; i < issues.size() && room > 0; ++i)
      if (issues[i].severity == severity) {
        chosen[i] = true;
        --room;
      }
  return chosen;
}

}  // namespace

std::string sarif_report(const LintReport& report) {
  OrderedJson rules = OrderedJson::array();
  for (const RuleInfo& info : all_rules()) rules.push_back(rule_descriptor(info));
  const std::vector<Issue>& issues = report.issues.issues;
  const std::vector<bool> chosen = chosen_issues(issues);
  OrderedJson results = OrderedJson::array();
  for (size_t i = 0; i < issues.size(); ++i)
    if (chosen[i]) results.push_back(result_of(report, issues[i]));

  OrderedJson driver;
  driver["name"] = "tftf-lint";
  driver["version"] = version();
  driver["semanticVersion"] = version();
  driver["rules"] = std::move(rules);
  OrderedJson run;
  run["tool"] = {{"driver", std::move(driver)}};
  if (!report.timestamp.empty())
    run["invocations"] =
        OrderedJson::array({OrderedJson({{"executionSuccessful", true}, {"endTimeUtc", report.timestamp}})});
  run["originalUriBaseIds"] = {
      {"SRCROOT", {{"description", {{"text", "The folder that the linter was started in."}}}}}};
  run["columnKind"] = "unicodeCodePoints";
  run["results"] = std::move(results);
  run["properties"] = {{"truncated", report.issues.truncated() || issues.size() > kMaxResults}};
  OrderedJson out;
  out["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  out["version"] = "2.1.0";
  out["runs"] = OrderedJson::array({std::move(run)});
  return json_text(out);
}

}  // namespace tftf
