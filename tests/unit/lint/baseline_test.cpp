#include "tftf/lint/baseline.h"

#include <catch2/catch.hpp>

namespace tftf {
namespace {

Diagnostic known_finding(Rule rule, std::string file, std::optional<std::string> subject = {}) {
  Diagnostic finding;
  finding.rule = rule;
  finding.file = std::move(file);
  finding.subject = std::move(subject);
  return finding;
}

PathFindings sample_findings() {
  PathFindings path;
  path.findings = {
      known_finding(Rule::ST041, "a.safetensors"), known_finding(Rule::ST042, "a.safetensors", "x"),
      known_finding(Rule::ST042, "a.safetensors", "x"), known_finding(Rule::ST042, "a.safetensors", "y"),
      known_finding(Rule::CF014, "config.json", "l.1")};
  path.omitted = {{"a.safetensors", Rule::ST063, 7}};
  return path;
}

bool every_rule(Rule) { return true; }

}  // namespace

TEST_CASE("a baseline holds what was found, and a run after it finds nothing") {
  std::vector<PathFindings> paths = {sample_findings()};
  const std::vector<BaselineScope> scopes = {{"m/", ""}};
  const std::string text = baseline_text(paths, scopes, {});
  const auto entries = parse_baseline("b.json", text);
  REQUIRE(entries.ok());
  CHECK(entries->size() == 5);
  CHECK(entries->front().file == "m/a.safetensors");
  const BaselineUse use = use_baseline(paths, scopes, *entries, every_rule);
  CHECK(use.known == 12);
  CHECK(use.stale.empty());
  CHECK(paths[0].findings.empty());
  CHECK(paths[0].omitted[0].count == 0);
}

TEST_CASE("findings beyond a baseline are told, and what it holds too much") {
  std::vector<PathFindings> before = {sample_findings()};
  const std::vector<BaselineScope> scopes = {{"", ""}};
  const auto entries = parse_baseline("b.json", baseline_text(before, scopes, {}));
  REQUIRE(entries.ok());
  std::vector<PathFindings> now = {sample_findings()};
  now[0].findings.erase(now[0].findings.begin());                               // ST041 is mended
  now[0].findings.push_back(known_finding(Rule::ST042, "a.safetensors", "x"));  // one more of a kind
  now[0].findings.push_back(known_finding(Rule::ST041, "b.safetensors"));       // another file
  now[0].omitted[0].count = 9;
  const BaselineUse use = use_baseline(now, scopes, *entries, every_rule);
  REQUIRE(now[0].findings.size() == 2);
  CHECK(now[0].findings[0].subject == "x");
  CHECK(now[0].findings[1].file == "b.safetensors");
  CHECK(now[0].omitted[0].count == 2);
  REQUIRE(use.stale.size() == 1);
  CHECK(use.stale[0].rule == "ST041");
  CHECK(use.stale[0].file == "a.safetensors");
}

TEST_CASE("what was not looked for is not stale") {
  std::vector<PathFindings> before = {sample_findings()};
  const auto entries =
      parse_baseline("b.json", baseline_text(before, std::vector<BaselineScope>{{"", ""}}, {}));
  REQUIRE(entries.ok());
  std::vector<PathFindings> none(1);
  const auto without = [](Rule rule) { return rule != Rule::CF014; };
  CHECK(use_baseline(none, std::vector<BaselineScope>{{"", ""}}, *entries, every_rule).stale.size() == 5);
  CHECK(use_baseline(none, std::vector<BaselineScope>{{"", ""}}, *entries, without).stale.size() == 4);
  CHECK(use_baseline(none, std::vector<BaselineScope>{{"", "config.json"}}, *entries, every_rule)
            .stale.size() == 1);
  CHECK(
      use_baseline(none, std::vector<BaselineScope>{{"elsewhere/", ""}}, *entries, every_rule).stale.empty());
}

TEST_CASE("rules that are off are not written to a baseline") {
  const std::vector<PathFindings> paths = {sample_findings()};
  LintPolicy policy;
  policy.ignore = {Rule::ST042, Rule::ST063};
  const auto entries =
      parse_baseline("b.json", baseline_text(paths, std::vector<BaselineScope>{{"", ""}}, policy));
  REQUIRE(entries.ok());
  CHECK(entries->size() == 2);
}

TEST_CASE("what is no baseline is refused with its name") {
  for (const char* text : {"", "[]", "{}", R"({"baseline":1})", R"({"baseline":2,"findings":[]})",
                           R"({"baseline":1,"findings":{}})", R"({"baseline":1,"findings":[1]})",
                           R"({"baseline":1,"findings":[{"rule":"ST041"}]})",
                           R"({"baseline":1,"findings":[{"rule":"ST041","file":"a","count":0}]})",
                           R"({"baseline":1,"findings":[{"rule":"ST041","file":"a","other":0}]})"}) {
    INFO(text);
    const auto entries = parse_baseline("known.json", text);
    REQUIRE_FALSE(entries.ok());
    CHECK(entries.error().code == ErrorCode::kUsage);
    CHECK(entries.error().message.find("known.json") != std::string::npos);
  }
}

}  // namespace tftf
