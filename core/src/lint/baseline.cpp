#include "tftf/lint/baseline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"

namespace tftf {
namespace {

constexpr int64_t kBaselineVersion = 1;

// File, rule, subject: the order of the text.
using BaselineKey = std::tuple<std::string, std::string, std::optional<std::string>>;
using BaselineCounts = std::map<BaselineKey, uint64_t>;

Error no_baseline(std::string_view file, const std::string& why) {
  return {.code = ErrorCode::kUsage,
          .message = escape_text(file) + " is no baseline: " + why + ".",
          .file = std::string(file)};
}

BaselineKey baseline_key(const BaselineScope& scope, Rule rule, const std::string& file,
                         std::optional<std::string> subject) {
  const std::string place = file == "." && !scope.place.empty() ? scope.place : scope.place + file;
  return {place, std::string(rule_info(rule).id), std::move(subject)};
}

bool is_inside_scope(const BaselineScope& scope, const std::string& file) {
  if (!scope.only_file.empty()) return file == scope.place + scope.only_file;
  return file.compare(0, scope.place.size(), scope.place) == 0;
}

Result<BaselineEntry> entry_of(std::string_view file, const JsonValue& value) {
  BaselineEntry entry;
  if (!value.is_object()) return no_baseline(file, "an entry is " + value.brief());
  for (const auto& [key, member] : value.members) {
    if (key == "rule" && member.is_string()) {
      entry.rule = member.text;
    } else if (key == "file" && member.is_string()) {
      entry.file = member.text;
    } else if (key == "subject" && member.is_string()) {
      entry.subject = member.text;
    } else if (key == "count" && member.as_integer() && *member.as_integer() > 0) {
      entry.count = static_cast<uint64_t>(*member.as_integer());
    } else {
      return no_baseline(file, "an entry has " + quote_name(key) + ": " + member.brief());
    }
  }
  if (entry.rule.empty() || entry.file.empty())
    return no_baseline(file, "an entry lacks its rule or its file");
  return entry;
}

}  // namespace

Result<std::vector<BaselineEntry>> parse_baseline(std::string_view file, std::string_view text) {
  const JsonDocument document = parse_json(text, JsonDialect::kStrict);
  if (document.error)
    return no_baseline(file, "it is not valid JSON at offset " + std::to_string(document.error->offset) +
                                 ": " + document.error->detail);
  const JsonValue* version = document.root.find("baseline");
  const JsonValue* findings = document.root.find("findings");
  if (version == nullptr || findings == nullptr || !findings->is_array())
    return no_baseline(file, "it lacks \"baseline\" or a list \"findings\"");
  if (version->as_integer() != kBaselineVersion)
    return no_baseline(
        file, "its version is " + version->brief() + ", " + std::to_string(kBaselineVersion) + " is known");
  std::vector<BaselineEntry> entries;
  for (const JsonValue& value : findings->elements) {
    Result<BaselineEntry> entry = entry_of(file, value);
    if (!entry) return std::move(entry).error();
    entries.push_back(*std::move(entry));
  }
  return entries;
}

std::string baseline_text(std::span<const PathFindings> paths, std::span<const BaselineScope> scopes,
                          const LintPolicy& policy) {
  BaselineCounts counts;
  for (size_t i = 0; i < paths.size(); ++i) {
    for (const Diagnostic& finding : paths[i].findings)
      if (policy.reports(finding.rule))
        ++counts[baseline_key(scopes[i], finding.rule, finding.file, finding.subject)];
    for (const OmittedFindings& omitted : paths[i].omitted)
      if (policy.reports(omitted.rule) && omitted.count != 0)
        counts[baseline_key(scopes[i], omitted.rule, omitted.file, std::nullopt)] += omitted.count;
  }
  OrderedJson findings = OrderedJson::array();
  for (const auto& [key, count] : counts) {
    const auto& [file, rule, subject] = key;
    OrderedJson entry = {{"file", file}, {"rule", rule}};
    if (subject) entry["subject"] = *subject;
    if (count != 1) entry["count"] = json_integer(count);
    findings.push_back(std::move(entry));
  }
  return json_text({{"baseline", kBaselineVersion}, {"findings", std::move(findings)}});
}

BaselineUse use_baseline(std::span<PathFindings> paths, std::span<const BaselineScope> scopes,
                         std::span<const BaselineEntry> entries, const std::function<bool(Rule)>& checked) {
  BaselineCounts left;
  for (const BaselineEntry& entry : entries) left[{entry.file, entry.rule, entry.subject}] += entry.count;
  BaselineUse use;
  const auto take = [&](const BaselineKey& key, uint64_t count) {
    const auto found = left.find(key);
    if (found == left.end()) return uint64_t{0};
    const uint64_t taken = std::min(found->second, count);
    found->second -= taken;
    use.known += taken;
    return taken;
  };
  for (size_t i = 0; i < paths.size(); ++i) {
    Diagnostics& findings = paths[i].findings;
    const auto is_known = [&](const Diagnostic& finding) {
      return checked(finding.rule) &&
             take(baseline_key(scopes[i], finding.rule, finding.file, finding.subject), 1) != 0;
    };
    findings.erase(std::remove_if(findings.begin(), findings.end(), is_known), findings.end());
    for (OmittedFindings& omitted : paths[i].omitted)
      if (checked(omitted.rule))
        omitted.count -=
            take(baseline_key(scopes[i], omitted.rule, omitted.file, std::nullopt), omitted.count);
  }
  for (const auto& entry : left) {
    const auto& [file, id, subject] = entry.first;
    const uint64_t count = entry.second;
    const std::optional<Rule> rule = find_rule(id);
    const bool looked_for = (!rule || checked(*rule)) &&
                            std::any_of(scopes.begin(), scopes.end(), [&](const BaselineScope& scope) {
                              return is_inside_scope(scope, std::get<0>(entry.first));
                            });
    if (count != 0 && looked_for) use.stale.push_back({id, file, subject, count});
  }
  return use;
}

}  // namespace tftf
