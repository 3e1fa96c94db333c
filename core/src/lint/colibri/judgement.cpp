#include "lint/colibri/judgement.h"

#include <algorithm>
#include <map>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

bool is_about_reading(Rule rule) {
  return rule == Rule::CO012 || rule == Rule::CO013 || rule == Rule::CO016 || rule == Rule::CO017;
}

std::string candidate_text(const ColibriCheck::Candidate& candidate) {
  std::string text(colibri::format_info(candidate.format).name);
  if (candidate.group != 0) text += " with group size " + std::to_string(candidate.group);
  return text;
}

struct Verdict {
  bool confirmed = false;
  std::string other_group;   // a group size that fits instead; empty: none does
  std::string other_format;  // likewise

  // What a rule is about: group sizes, or formats.
  const std::string& other(Rule rule) const { return rule == Rule::CO016 ? other_group : other_format; }
};

Verdict verdict_on(const ColibriCheck& check, const std::vector<ColibriSeen>& seen) {
  Verdict verdict;
  verdict.confirmed = colibri_fits(check, 0, seen[0]);
  for (size_t c = 1; c < seen.size() && !verdict.confirmed; ++c) {
    const bool group = check.candidates[c].format == check.candidates[0].format;
    std::string& other = group ? verdict.other_group : verdict.other_format;
    if (other.empty() && colibri_fits(check, c, seen[c])) other = candidate_text(check.candidates[c]);
  }
  return verdict;
}

void set_value(Diagnostic& finding, std::string_view key, DiagnosticValue value) {
  for (auto& [name, old] : finding.values)
    if (name == key) old = std::move(value);
}

void make_error(Diagnostic& finding, const ColibriCheck& check, const std::string& other) {
  finding.severity = Severity::kError;
  set_value(finding, "detail",
            "the data are " + other + ", not what a reader takes them for (" +
                candidate_text(check.candidates[0]) + "): it is misread");
  finding.values.emplace_back("data", other);
}

// For a group size that no reader looks for: the headers alone raise nothing.
Diagnostic misread_groups(const LintResult& result, const ColibriCheck& check) {
  const LintedFile& file = result.files[check.weight.file];
  const TensorInfo& weight = file.scan.header.tensors[check.weight.tensor];
  Diagnostic finding;
  finding.rule = Rule::CO016;
  finding.file = file.path;
  finding.subject = weight.name;
  finding.values = {{"tensor", weight.name},
                    {"rows", check.rows},
                    {"columns", check.columns},
                    {"weight_bytes", weight.bytes()},
                    {"groups", ceil_div(check.columns, check.candidates[0].group)},
                    {"group_size", check.candidates[0].group},
                    {"detail", std::string()}};
  return finding;
}

}  // namespace

void judge_colibri(LintResult& result, const std::vector<std::vector<ColibriSeen>>& seen) {
  std::map<std::pair<std::string_view, std::string_view>, Verdict> verdicts;
  std::map<std::pair<std::string_view, std::string_view>, const ColibriCheck*> checks;
  for (size_t i = 0; i < seen.size(); ++i) {
    const ColibriCheck& check = result.colibri_checks[i];
    if (seen[i].empty()) continue;
    const LintedFile& file = result.files[check.weight.file];
    const std::pair<std::string_view, std::string_view> key = {
        file.path, file.scan.header.tensors[check.weight.tensor].name};
    verdicts[key] = verdict_on(check, seen[i]);
    checks[key] = &check;
  }
  std::vector<std::pair<std::string_view, std::string_view>> told;
  Diagnostics kept;
  for (Diagnostic& finding : result.findings) {
    const auto verdict =
        finding.subject && is_about_reading(finding.rule)
            ? verdicts.find({std::string_view(finding.file), std::string_view(*finding.subject)})
            : verdicts.end();
    if (verdict == verdicts.end()) {
      kept.push_back(std::move(finding));
      continue;
    }
    if (verdict->second.confirmed) continue;
    const std::string& other = verdict->second.other(finding.rule);
    if (!other.empty() && finding.rule != Rule::CO013) {
      make_error(finding, *checks[verdict->first], other);
      if (finding.rule == Rule::CO016) told.push_back(verdict->first);
    }
    kept.push_back(std::move(finding));
  }
  for (const auto& [key, verdict] : verdicts) {
    const ColibriCheck& check = *checks[key];
    if (verdict.confirmed || verdict.other_group.empty() ||
        std::find(told.begin(), told.end(), key) != told.end())
      continue;
    Diagnostic finding = misread_groups(result, check);
    make_error(finding, check, verdict.other_group);
    kept.push_back(std::move(finding));
  }
  result.findings = std::move(kept);
}

Diagnostic rans_finding(const std::string& file, const std::string& tensor, std::string_view reason,
                        std::string detail) {
  Diagnostic finding;
  finding.rule = Rule::CO025;
  finding.file = file;
  if (!tensor.empty()) finding.subject = tensor;
  finding.values = {{"class", std::string(reason)},
                    {"tensor", tensor.empty() ? DiagnosticValue() : DiagnosticValue(tensor)},
                    {"tensor_text", tensor.empty() ? std::string() : " of " + quote_name(tensor)},
                    {"detail", std::move(detail)}};
  return finding;
}

}  // namespace tftf
