#include "tftf/lint/policy.h"

#include <catch2/catch.hpp>

namespace tftf {
namespace {

Diagnostic finding(Rule rule, std::string file, std::optional<uint64_t> offset = {}) {
  Diagnostic d;
  d.rule = rule;
  d.file = std::move(file);
  d.offset = offset;
  return d;
}

std::string refusal(std::string_view config) {
  Result<LintConfig> result = parse_lint_config("lint.json", config);
  if (result.ok()) return "accepted";
  CHECK(result.error().code == ErrorCode::kUsage);
  return result.error().message;
}

}  // namespace

TEST_CASE("rule lists take known ids and nothing else") {
  Result<std::vector<Rule>> rules = parse_rule_list("ST041,CF010");
  REQUIRE(rules.ok());
  CHECK(*rules == std::vector<Rule>{Rule::ST041, Rule::CF010});
  for (const char* bad : {"", "ST041,", ",ST041", "ST999", "TRAILING_BYTES", "ST041 ", "ST041;ST042"}) {
    INFO(bad);
    Result<std::vector<Rule>> result = parse_rule_list(bad);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::kUsage);
    CHECK(result.error().message.find("There is no rule") == 0);
  }
}

TEST_CASE("severity overrides name a rule and a level") {
  for (Severity level : {Severity::kError, Severity::kWarning, Severity::kInfo, Severity::kHint}) {
    auto parsed = parse_severity_override("ST041=" + std::string(severity_name(level)));
    REQUIRE(parsed.ok());
    CHECK(*parsed == std::pair(Rule::ST041, std::optional(level)));
  }
  auto off = parse_severity_override("st041=off");
  REQUIRE(off.ok());
  CHECK(*off == std::pair(Rule::ST041, std::optional<Severity>()));
  for (const char* bad : {"ST041", "ST041=", "ST041=fatal", "=error", "ST41=error", "ST041=Error", "ST041=0"})
    CHECK_FALSE(parse_severity_override(bad).ok());
}

TEST_CASE("the fail level is error, warning or info") {
  CHECK(*parse_fail_level("error") == Severity::kError);
  CHECK(*parse_fail_level("warning") == Severity::kWarning);
  CHECK(*parse_fail_level("info") == Severity::kInfo);
  for (const char* bad : {"hint", "", "warn", "ERROR"}) CHECK_FALSE(parse_fail_level(bad).ok());
}

TEST_CASE("a configuration file sets rules, severities and the limit") {
  Result<LintConfig> config = parse_lint_config(
      "lint.json", R"({"ignore":["ST044","ST053"],"override":{"ST041":"warning","ST051":0},"max-issues":7})");
  REQUIRE(config.ok());
  CHECK(config->ignore == std::vector<Rule>{Rule::ST044, Rule::ST053});
  using Choices = std::vector<std::pair<Rule, std::optional<Severity>>>;
  CHECK(config->overrides == Choices{{Rule::ST041, Severity::kWarning}, {Rule::ST051, Severity::kError}});
  const auto off = parse_lint_config("lint.json", R"({"override":{"ST041":"off"}})");
  REQUIRE(off.ok());
  CHECK(off->overrides == Choices{{Rule::ST041, std::nullopt}});
  CHECK(config->max_issues == 7);
  CHECK(parse_lint_config("lint.json", "{}").ok());
}

TEST_CASE("a configuration file with anything unknown is refused") {
  CHECK(refusal(R"({"ignored":["ST044"]})") ==
        "lint.json: \"ignored\" is not a setting; ignore, only, override and max-issues are.");
  CHECK(refusal(R"({"ignore":["ST44"]})") ==
        "lint.json: \"ignore\": There is no rule \"ST44\". The list: tftf-lint rules.");
  CHECK(refusal(R"({"ignore":"ST044"})") ==
        "lint.json: \"ignore\" is a JSON string; a list of rule ids is expected.");
  CHECK(refusal(R"({"only":[44]})") == "lint.json: \"only\" holds 44; a rule id is expected.");
  CHECK(refusal(R"({"override":{"ST044":"fatal"}})") ==
        "lint.json: \"override\" gives ST044 the level \"fatal\"; error, warning, info, hint or off is "
        "expected.");
  CHECK(refusal(R"({"override":{"ST044":4}})").find("the level 4;") != std::string::npos);
  CHECK(refusal(R"({"override":{"ST044":"error","ST044":"hint"}})") ==
        "lint.json: \"override\" names \"ST044\" twice.");
  CHECK(refusal(R"({"override":["ST044"]})").find("is a JSON array") != std::string::npos);
  CHECK(refusal(R"({"max-issues":-1})") == "lint.json: \"max-issues\" is -1; a number from 0 is expected.");
  CHECK(refusal(R"({"max-issues":1.5})").find("is 1.5;") != std::string::npos);
  CHECK(refusal(R"({"ignore":[],"ignore":[]})") == "lint.json: \"ignore\" occurs twice.");
  CHECK(refusal(R"({"ignore":["ST044"],"only":["ST041"]})") ==
        "lint.json: \"only\" and \"ignore\" exclude each other.");
  CHECK(refusal("[]") == "lint.json is a JSON array; an object is expected.");
  CHECK(refusal("{").find("lint.json is not valid JSON at offset ") == 0);
  CHECK(refusal("\xEF\xBB\xBF{}") != "accepted");
}

TEST_CASE("the command line goes before the configuration file") {
  LintConfig config;
  config.ignore = {Rule::ST044};
  config.overrides = {{Rule::ST041, Severity::kHint}, {Rule::ST051, Severity::kInfo}};
  config.max_issues = 3;

  LintPolicy silent;
  merge_config(silent, config, false);
  CHECK(silent.ignore == config.ignore);
  CHECK(silent.max_issues == 3);
  CHECK(silent.severity(Rule::ST041) == Severity::kHint);

  LintPolicy given;
  given.only = {Rule::ST044};
  given.overrides = {{Rule::ST041, Severity::kWarning}};
  given.max_issues = 50;
  merge_config(given, config, true);
  CHECK(given.ignore.empty());
  CHECK(given.reports(Rule::ST044));
  CHECK_FALSE(given.reports(Rule::ST041));
  CHECK(given.severity(Rule::ST041) == Severity::kWarning);
  CHECK(given.severity(Rule::ST051) == Severity::kInfo);
  CHECK(given.max_issues == 50);
}

TEST_CASE("ignored rules leave no trace, only keeps the named ones") {
  const Diagnostics all = {finding(Rule::ST041, "a"), finding(Rule::ST044, "a"), finding(Rule::ST051, "a")};
  std::vector<PathFindings> findings = {{all, {}}};
  LintPolicy policy;
  policy.ignore = {Rule::ST041};
  IssueList list = apply_policy(findings, policy);
  REQUIRE(list.issues.size() == 2);
  CHECK(list.counts == std::array<uint64_t, 4>{0, 1, 0, 1});
  CHECK_FALSE(list.failed);

  findings = {{all, {}}};
  policy.ignore.clear();
  policy.only = {Rule::ST041};
  list = apply_policy(findings, policy);
  REQUIRE(list.issues.size() == 1);
  CHECK(list.issues[0].finding.rule == Rule::ST041);
  CHECK(list.failed);
}

TEST_CASE("a rule that is off leaves no trace, and the last word about it counts") {
  for (const bool by_file : {false, true}) {
    PolicyWords words;
    if (by_file) {
      words.config_file = "lint.json";
      words.config_text = R"({"override":{"ST041":"off"}})";
    } else {
      words.severities = {"ST041=error", "st041=off"};
    }
    auto policy = make_policy(words);
    REQUIRE(policy.ok());
    CHECK_FALSE(policy->reports(Rule::ST041));
    CHECK(policy->reports(Rule::ST044));
    std::vector<PathFindings> findings = {{{finding(Rule::ST041, "a")}, {}}};
    CHECK(apply_policy(findings, *policy).issues.empty());
    // The command line goes before the file, and what is off is off among the only ones, too.
    words.severities.push_back("ST041=warning");
    policy = make_policy(words);
    REQUIRE(policy.ok());
    CHECK(policy->reports(Rule::ST041));
    CHECK(policy->severity(Rule::ST041) == Severity::kWarning);
    words.only = {"st041"};
    words.severities.push_back("ST041=off");
    policy = make_policy(words);
    REQUIRE(policy.ok());
    CHECK_FALSE(policy->reports(Rule::ST041));
  }
}

TEST_CASE("rule ids are taken in any case") {
  for (const char* list : {"st041,CF021", "ST041,cf021", "St041,cF021"}) {
    const auto rules = parse_rule_list(list);
    REQUIRE(rules.ok());
    CHECK(*rules == std::vector<Rule>{Rule::ST041, Rule::CF021});
  }
}

TEST_CASE("overrides change severity and so what fails") {
  for (Severity level : {Severity::kError, Severity::kWarning, Severity::kInfo, Severity::kHint})
    for (Severity fail_on : {Severity::kError, Severity::kWarning, Severity::kInfo}) {
      std::vector<PathFindings> findings = {{{finding(Rule::ST041, "a")}, {}}};
      LintPolicy policy;
      policy.overrides = {{Rule::ST041, Severity::kHint}, {Rule::ST041, level}};
      policy.fail_on = fail_on;
      const IssueList list = apply_policy(findings, policy);
      CHECK(list.issues[0].severity == level);
      CHECK(list.counts[static_cast<size_t>(level)] == 1);
      CHECK(list.failed == (level <= fail_on));
    }
}

TEST_CASE("the limit counts per PATH, file and rule, and keeps the first") {
  Diagnostics many;
  for (const char* file : {"a", "b"})
    for (uint64_t offset = 0; offset < 5; ++offset)
      for (Rule rule : {Rule::ST041, Rule::ST044}) many.push_back(finding(rule, file, offset));
  std::vector<PathFindings> findings = {{many, {}}, {many, {}}};
  LintPolicy policy;
  policy.max_issues = 3;
  const IssueList list = apply_policy(findings, policy);
  CHECK(list.issues.size() == 2 * 2 * 2 * 3);
  CHECK(list.counts == std::array<uint64_t, 4>{20, 0, 0, 20});
  for (const Issue& issue : list.issues) CHECK(*issue.finding.offset < 3);
  CHECK(list.truncated());
  REQUIRE(list.cut.size() == 8);
  CHECK(list.cut[0].count == 2);
  CHECK(list.cut[7].input == 1);
  CHECK(list.cut[7].file == "b");
  CHECK(list.cut[7].rule == Rule::ST044);

  policy.max_issues = 0;
  findings = {{many, {}}};
  CHECK(apply_policy(findings, policy).issues.size() == 20);
  policy.max_issues = 5;
  findings = {{many, {}}};
  CHECK_FALSE(apply_policy(findings, policy).truncated());
}

TEST_CASE("findings that were counted and not kept count and truncate") {
  std::vector<PathFindings> paths = {
      {{finding(Rule::ST062, "a"), finding(Rule::ST062, "a")},
       {{"a", Rule::ST062, 1000}, {"b", Rule::ST041, 1}, {"b", Rule::ST044, 7}}}};
  LintPolicy policy;
  policy.max_issues = 1;
  policy.ignore = {Rule::ST044};
  const IssueList list = apply_policy(paths, policy);
  CHECK(list.issues.size() == 1);
  CHECK(list.counts == std::array<uint64_t, 4>{1, 1002, 0, 0});
  CHECK(list.failed);
  REQUIRE(list.cut.size() == 2);
  CHECK(list.cut[0].count == 1001);
  CHECK(list.cut[1].rule == Rule::ST041);
}

}  // namespace tftf
