#include <catch2/catch.hpp>

#include "sample_report.h"
#include "tftf/lint/report.h"
#include "xml_check.h"

namespace tftf {

using test::hostile_names;
using test::hostile_report;
using test::parse_xml;
using test::sample_finding;
using test::sample_report;
using test::XmlElement;

namespace {

XmlElement parsed_xml(const LintReport& report) {
  std::string problem;
  std::optional<XmlElement> root = parse_xml(junit_report(report), problem);
  INFO(problem);
  REQUIRE(root.has_value());
  CHECK(root->name == "testsuites");
  return *root;
}

const XmlElement& suite(const XmlElement& root, const std::string& name) {
  for (const XmlElement& child : root.children)
    if (child.attributes.at("name") == name) return child;
  FAIL("no suite " << name);
  return root;
}

}  // namespace

TEST_CASE("JUnit: a suite per file or folder, a case per rule with issues") {
  const XmlElement root = parsed_xml(sample_report());
  REQUIRE(root.children.size() == 3);
  const XmlElement& folder = suite(root, "model/");
  REQUIRE(folder.children.size() == 3);
  CHECK(folder.attributes.at("failures") == "1");
  CHECK(folder.children[0].attributes.at("name") == "IX019 SHARD_TOTALS_DIFFER");
  CHECK(folder.children[0].children[0].name == "system-out");
  CHECK(folder.children[1].attributes.at("classname") == "model/model.safetensors.index.json");
  CHECK(folder.children[1].children[0].name == "failure");
  CHECK(folder.children[1].children[0].attributes.at("type") == "IX005");
  const XmlElement& broken = suite(root, "model/b.safetensors");
  CHECK(broken.attributes.at("failures") == "1");
  CHECK(broken.children[0].children[0].attributes.at("message") ==
        "b.safetensors: 4 bytes after the last tensor, from file offset 1092.");
  CHECK(suite(root, "model/a.safetensors").attributes.at("failures") == "0");
  CHECK(root.attributes.at("failures") == "2");
}

TEST_CASE("JUnit: tests are the rules evaluated there") {
  uint64_t st = 0, ix = 0, cf = 0, lo = 0, co = 0, qt = 0;
  for (const RuleInfo& info : all_rules()) {
    const std::string_view family = info.id.substr(0, 2);
    st += family == "ST";
    ix += family == "IX";
    cf += family == "CF";
    lo += family == "LO";
    co += family == "CO";
    qt += family == "QT";
  }
  LintReport report = sample_report();
  report.with_data = report.with_base = true;
  XmlElement root = parsed_xml(report);
  CHECK(suite(root, "model/").attributes.at("tests") == std::to_string(ix + cf + lo + co + qt));
  CHECK(suite(root, "model/a.safetensors").attributes.at("tests") == std::to_string(st + lo + co + qt));
  report.with_data = report.with_base = false;
  root = parsed_xml(report);
  const auto evaluated = [&](std::initializer_list<std::string_view> families) {
    uint64_t count = 0;
    for (const RuleInfo& info : all_rules())
      for (const std::string_view family : families)
        count += info.id.substr(0, 2) == family && is_rule_checked(report, info.rule);
    return std::to_string(count);
  };
  CHECK(suite(root, "model/").attributes.at("tests") == evaluated({"IX", "CF", "LO", "CO", "QT"}));
  CHECK(suite(root, "model/a.safetensors").attributes.at("tests") == evaluated({"ST", "LO", "CO", "QT"}));
  CHECK(evaluated({"ST", "LO", "CO", "QT"}) != std::to_string(st + lo + co + qt));
}

TEST_CASE("JUnit: a file without issues has one case that passes") {
  LintReport report = sample_report();
  report.issues = {};
  for (const XmlElement& one : parsed_xml(report).children) {
    REQUIRE(one.children.size() == 1);
    CHECK(one.children[0].attributes.at("name") == "container");
    CHECK(one.children[0].children.empty());
    CHECK(one.attributes.at("failures") == "0");
  }
}

TEST_CASE("JUnit: warnings fail under --fail-on warning only") {
  LintPolicy policy;
  CHECK(suite(parsed_xml(sample_report(policy)), "model/").children[0].children[0].name == "system-out");
  policy.fail_on = Severity::kWarning;
  CHECK(suite(parsed_xml(sample_report(policy)), "model/").children[0].children[0].name == "failure");
  CHECK(suite(parsed_xml(sample_report(policy)), "model/").children[2].children[0].name == "system-out");
}

TEST_CASE("JUnit: all messages of a rule are in its case, cut ones counted") {
  LintReport report;
  report.policy.max_issues = 3;
  report.inputs.push_back({"m", true, "m/", {}, {}});
  std::vector<PathFindings> paths(1);
  for (int i = 0; i < 5; ++i)
    paths[0].findings.push_back(sample_finding(Rule::ST055, "a.safetensors", "t" + std::to_string(i)));
  report.issues = apply_policy(paths, report.policy);
  const XmlElement root = parsed_xml(report);
  const std::string text = root.children[0].children[0].children[0].text;
  CHECK(text ==
        "warning\na.safetensors: contains no tensors.\na.safetensors: contains no tensors.\na.safetensors: "
        "contains no "
        "tensors.\nand 2 more\n");
}

TEST_CASE("JUnit stays well-formed XML 1.0 with any name") {
  const XmlElement root = parsed_xml(hostile_report());
  CHECK(root.children.size() == hostile_names().size());
  for (const XmlElement& one : root.children) {
    CHECK(one.children.size() == 2);
    for (const XmlElement& test : one.children) CHECK(test.children.size() == 1);
  }
}

}  // namespace tftf
