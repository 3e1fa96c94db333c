#include "tftf/lint/policy.h"

#include <algorithm>
#include <map>
#include <set>

#include "tftf/base/escape.h"
#include "tftf/base/json_value.h"

namespace tftf {
namespace {

Error usage(std::string message) {
  Error error;
  error.code = ErrorCode::kUsage;
  error.message = std::move(message);
  return error;
}

// Ids in any case.
Result<Rule> parse_rule(std::string_view id) {
  std::string upper(id);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  const std::optional<Rule> rule = find_rule(upper);
  if (rule) return *rule;
  return usage("There is no rule " + quote_name(id) + ". The list: tftf-lint rules.");
}

std::string level_names() { return "error, warning, info, hint or off"; }

constexpr std::string_view kOff = "off";

using SeverityChoice = std::pair<Rule, std::optional<Severity>>;  // nothing: off

void take_choice(LintPolicy& policy, const SeverityChoice& choice) {
  // The last word about a rule counts.
  policy.off.erase(std::remove(policy.off.begin(), policy.off.end(), choice.first), policy.off.end());
  if (choice.second) {
    policy.overrides.emplace_back(choice.first, *choice.second);
  } else {
    policy.off.push_back(choice.first);
  }
}

// One member of the configuration: a list of rule ids.
Result<std::vector<Rule>> rules_of(const JsonValue& value, const std::string& where) {
  if (!value.is_array())
    return usage(where + " is a JSON " + std::string(json_kind_name(value.kind)) +
                 "; a list of rule ids is expected.");
  std::vector<Rule> rules;
  for (const JsonValue& element : value.elements) {
    if (!element.is_string()) return usage(where + " holds " + element.brief() + "; a rule id is expected.");
    Result<Rule> rule = parse_rule(element.text);
    if (!rule) return usage(where + ": " + rule.error().message);
    rules.push_back(*rule);
  }
  return rules;
}

Result<std::vector<SeverityChoice>> overrides_of(const JsonValue& value, const std::string& where) {
  if (!value.is_object())
    return usage(where + " is a JSON " + std::string(json_kind_name(value.kind)) +
                 "; an object of rule ids and levels is expected.");
  std::vector<SeverityChoice> overrides;
  for (const JsonValue::Member& member : value.members) {
    Result<Rule> rule = parse_rule(member.first);
    if (!rule) return usage(where + ": " + rule.error().message);
    std::optional<Severity> level;
    if (member.second.is_string()) level = find_severity(member.second.text);
    if (const std::optional<int64_t> number = member.second.as_integer();
        number && *number >= 0 && *number <= 3)
      level = static_cast<Severity>(*number);
    const bool off = member.second.is_string() && member.second.text == kOff;
    if (!level && !off)
      return usage(where + " gives " + member.first + " the level " + member.second.brief() + "; " +
                   level_names() + " is expected.");
    overrides.emplace_back(*rule, level);
  }
  return overrides;
}

const JsonValue::Member* repeated_member(const JsonValue& object) {
  std::set<std::string_view> seen;
  for (const JsonValue::Member& member : object.members)
    if (!seen.insert(member.first).second) return &member;
  return nullptr;
}

Result<std::vector<Rule>> rules_of_lists(const std::vector<std::string>& lists) {
  std::vector<Rule> rules;
  for (const std::string& list : lists) {
    Result<std::vector<Rule>> some = parse_rule_list(list);
    if (!some) return some;
    rules.insert(rules.end(), some->begin(), some->end());
  }
  return rules;
}

}  // namespace

bool LintPolicy::reports(Rule rule) const {
  if (std::find(off.begin(), off.end(), rule) != off.end()) return false;
  if (!only.empty()) return std::find(only.begin(), only.end(), rule) != only.end();
  return std::find(ignore.begin(), ignore.end(), rule) == ignore.end();
}

Severity LintPolicy::severity(Rule rule) const {
  for (auto it = overrides.rbegin(); it != overrides.rend(); ++it)
    if (it->first == rule) return it->second;
  return rule_info(rule).severity;
}

Result<std::vector<Rule>> parse_rule_list(std::string_view list) {
  std::vector<Rule> rules;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    Result<Rule> rule = parse_rule(list.substr(at, comma - at));
    if (!rule) return std::move(rule).error();
    rules.push_back(*rule);
    at = comma + 1;
  }
  return rules;
}

Result<SeverityChoice> parse_severity_override(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return usage("--severity takes ID=LEVEL, such as ST051=error, not " + quote_name(text) + ".");
  Result<Rule> rule = parse_rule(text.substr(0, equals));
  if (!rule) return std::move(rule).error();
  const std::optional<Severity> level = find_severity(text.substr(equals + 1));
  if (!level && text.substr(equals + 1) != kOff)
    return usage("There is no level " + quote_name(text.substr(equals + 1)) + "; " + level_names() +
                 " is expected.");
  return SeverityChoice(*rule, level);
}

Result<Severity> parse_fail_level(std::string_view text) {
  const std::optional<Severity> level = find_severity(text);
  if (!level || *level == Severity::kHint)
    return usage("--fail-on takes error, warning or info, not " + quote_name(text) + ".");
  return *level;
}

Result<LintConfig> parse_lint_config(std::string_view file, std::string_view text) {
  const std::string where = escape_text(file);
  const JsonDocument document = parse_json(text, JsonDialect::kStrict);
  if (document.error)
    return usage(where + " is not valid JSON at offset " + std::to_string(document.error->offset) + ": " +
                 document.error->detail + ".");
  const JsonValue& root = document.root;
  if (!root.is_object())
    return usage(where + " is a JSON " + std::string(json_kind_name(root.kind)) + "; an object is expected.");
  LintConfig config;
  if (const JsonValue::Member* member = repeated_member(root))
    return usage(where + ": " + quote_name(member->first) + " occurs twice.");
  for (const JsonValue::Member& member : root.members) {
    const std::string key = where + ": " + quote_name(member.first);
    if (member.first == "ignore" || member.first == "only") {
      Result<std::vector<Rule>> rules = rules_of(member.second, key);
      if (!rules) return std::move(rules).error();
      (member.first == "only" ? config.only : config.ignore) = std::move(*rules);
    } else if (member.first == "override") {
      if (const JsonValue::Member* twice = repeated_member(member.second))
        return usage(key + " names " + quote_name(twice->first) + " twice.");
      Result<std::vector<SeverityChoice>> overrides = overrides_of(member.second, key);
      if (!overrides) return std::move(overrides).error();
      config.overrides = std::move(*overrides);
    } else if (member.first == "max-issues") {
      const std::optional<int64_t> number = member.second.as_integer();
      if (!number || *number < 0)
        return usage(key + " is " + member.second.brief() + "; a number from 0 is expected.");
      config.max_issues = static_cast<uint64_t>(*number);
    } else {
      return usage(key + " is not a setting; ignore, only, override and max-issues are.");
    }
  }
  if (!config.only.empty() && !config.ignore.empty())
    return usage(where + ": \"only\" and \"ignore\" exclude each other.");
  return config;
}

void merge_config(LintPolicy& policy, const LintConfig& config, bool max_issues_given) {
  if (policy.only.empty() && policy.ignore.empty()) {
    policy.only = config.only;
    policy.ignore = config.ignore;
  }
  for (const SeverityChoice& choice : config.overrides) {
    const bool said = std::any_of(policy.overrides.begin(), policy.overrides.end(),
                                  [&](const auto& own) { return own.first == choice.first; }) ||
                      std::find(policy.off.begin(), policy.off.end(), choice.first) != policy.off.end();
    if (!said) take_choice(policy, choice);
  }
  if (config.max_issues && !max_issues_given) policy.max_issues = *config.max_issues;
}

Result<LintPolicy> make_policy(const PolicyWords& words) {
  LintPolicy policy;
  if (!words.only.empty() && !words.ignore.empty()) return usage("--only and --ignore exclude each other.");
  Result<std::vector<Rule>> only = rules_of_lists(words.only);
  if (!only) return std::move(only).error();
  Result<std::vector<Rule>> ignore = rules_of_lists(words.ignore);
  if (!ignore) return std::move(ignore).error();
  policy.only = std::move(*only);
  policy.ignore = std::move(*ignore);
  for (const std::string& text : words.severities) {
    Result<SeverityChoice> entry = parse_severity_override(text);
    if (!entry) return std::move(entry).error();
    take_choice(policy, *entry);
  }
  if (words.max_issues) policy.max_issues = *words.max_issues;
  if (!words.fail_on.empty()) {
    Result<Severity> level = parse_fail_level(words.fail_on);
    if (!level) return std::move(level).error();
    policy.fail_on = *level;
  }
  if (words.strict) {
    if (!words.fail_on.empty() && policy.fail_on != Severity::kWarning)
      return usage("--strict is --fail-on warning; the command line also says --fail-on " + words.fail_on +
                   ".");
    policy.fail_on = Severity::kWarning;
  }
  if (!words.config_file.empty()) {
    Result<LintConfig> config = parse_lint_config(words.config_file, words.config_text);
    if (!config) return std::move(config).error();
    merge_config(policy, *config, words.max_issues.has_value());
  }
  return policy;
}

IssueList apply_policy(std::span<PathFindings> paths, const LintPolicy& policy) {
  const size_t rules = all_rules().size();
  std::vector<bool> reported(rules);
  std::vector<Severity> severities(rules);
  std::vector<bool> overridden(rules);
  for (const auto& [rule, severity] : policy.overrides) overridden[static_cast<size_t>(rule)] = true;
  for (size_t i = 0; i < rules; ++i) {
    reported[i] = policy.reports(static_cast<Rule>(i));
    severities[i] = policy.severity(static_cast<Rule>(i));
  }
  const uint64_t limit = policy.max_issues == 0 ? UINT64_MAX : policy.max_issues;
  IssueList list;
  for (size_t input = 0; input < paths.size(); ++input) {
    std::map<std::pair<std::string, Rule>, uint64_t> cut;
    std::vector<uint64_t> in_file(rules);  // issues of the file at hand
    std::string file;
    for (Diagnostic& finding : paths[input].findings) {
      const auto rule = static_cast<size_t>(finding.rule);
      if (!reported[rule]) continue;
      if (finding.file != file) {
        file = finding.file;
        std::fill(in_file.begin(), in_file.end(), 0);
      }
      const Severity severity =
          overridden[rule] ? severities[rule] : finding.severity.value_or(severities[rule]);
      ++list.counts[static_cast<size_t>(severity)];
      if (++in_file[rule] > limit)
        ++cut[{file, finding.rule}];
      else
        list.issues.push_back({std::move(finding), severity, static_cast<uint32_t>(input)});
    }
    for (const OmittedFindings& omitted : paths[input].omitted) {
      const auto rule = static_cast<size_t>(omitted.rule);
      if (!reported[rule] || omitted.count == 0) continue;
      list.counts[static_cast<size_t>(severities[rule])] += omitted.count;
      cut[{omitted.file, omitted.rule}] += omitted.count;
    }
    for (const auto& [where, count] : cut)
      list.cut.push_back({static_cast<uint32_t>(input), where.first, where.second, count});
  }
  for (size_t level = 0; level <= static_cast<size_t>(policy.fail_on); ++level)
    if (list.counts[level] != 0) list.failed = true;
  return list;
}

}  // namespace tftf
