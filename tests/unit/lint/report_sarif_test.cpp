#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sample_report.h"
#include "tftf/base/json_text.h"
#include "tftf/base/sha256.h"
#include "tftf/base/version.h"

namespace tftf {

using test::hostile_names;
using test::hostile_report;
using test::sample_finding;
using test::sample_report;

namespace {

// What the SARIF 2.1.0 schema says of the objects we use: members with their types, and which are required.
// All these objects forbid further members. Types: s string, u URI, r URI reference, i integer from 0, p
// integer from 1, b boolean, t date-time, o any object, or the name of another object; a leading [ is a list
// of it, { a map to it.
struct Shape {
  std::map<std::string, std::string> members;
  std::set<std::string> required;
};
const std::map<std::string, Shape>& shapes() {
  static const std::map<std::string, Shape> table = {
      {"log", {{{"$schema", "u"}, {"version", "s"}, {"runs", "[run"}}, {"version", "runs"}}},
      {"run",
       {{{"tool", "tool"},
         {"invocations", "[invocation"},
         {"originalUriBaseIds", "{artifactLocation"},
         {"columnKind", "s"},
         {"results", "[result"},
         {"properties", "o"}},
        {"tool"}}},
      {"tool", {{{"driver", "component"}}, {"driver"}}},
      {"component",
       {{{"name", "s"}, {"version", "s"}, {"semanticVersion", "s"}, {"rules", "[descriptor"}}, {"name"}}},
      {"descriptor",
       {{{"id", "s"},
         {"name", "s"},
         {"shortDescription", "multiformat"},
         {"fullDescription", "multiformat"},
         {"helpUri", "u"},
         {"help", "multiformat"},
         {"defaultConfiguration", "configuration"},
         {"properties", "o"}},
        {"id"}}},
      {"multiformat", {{{"text", "s"}, {"markdown", "s"}}, {"text"}}},
      {"configuration", {{{"level", "level"}}, {}}},
      {"invocation", {{{"executionSuccessful", "b"}, {"endTimeUtc", "t"}}, {"executionSuccessful"}}},
      {"result",
       {{{"ruleId", "s"},
         {"ruleIndex", "i"},
         {"level", "level"},
         {"message", "message"},
         {"locations", "[location"},
         {"partialFingerprints", "{s"},
         {"properties", "o"}},
        {"message"}}},
      {"message", {{{"text", "s"}}, {"text"}}},
      {"location",
       {{{"physicalLocation", "physicalLocation"}, {"logicalLocations", "[logicalLocation"}}, {}}},
      {"physicalLocation",
       {{{"artifactLocation", "artifactLocation"}, {"region", "region"}}, {"artifactLocation"}}},
      {"artifactLocation", {{{"uri", "r"}, {"uriBaseId", "s"}, {"description", "message"}}, {}}},
      {"region", {{{"startLine", "p"}, {"startColumn", "p"}, {"byteOffset", "i"}, {"byteLength", "i"}}, {}}},
      {"logicalLocation", {{{"name", "s"}, {"kind", "s"}}, {}}},
  };
  return table;
}

bool is_uri_reference(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      if (i + 2 >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[i + 1])) ||
          !std::isxdigit(static_cast<unsigned char>(text[i + 2])))
        return false;
      continue;
    }
    if (!std::isalnum(c) && std::string("-._~:/?#[]@!$&'()*+,;=").find(text[i]) == std::string::npos)
      return false;
  }
  return true;
}

// The first violation, empty when there is none.
std::string violation(const OrderedJson& value, const std::string& type, const std::string& at) {
  if (type[0] == '[' || type[0] == '{') {
    if (type[0] == '[' ? !value.is_array() : !value.is_object()) return at + ": wrong container";
    for (const auto& item : value.items())
      if (std::string why = violation(item.value(), type.substr(1), at + "/" + item.key()); !why.empty())
        return why;
    return "";
  }
  if (const auto shape = shapes().find(type); shape != shapes().end()) {
    if (!value.is_object()) return at + ": not an object";
    for (const std::string& name : shape->second.required)
      if (!value.contains(name)) return at + ": lacks " + name;
    for (const auto& item : value.items()) {
      const auto member = shape->second.members.find(item.key());
      if (member == shape->second.members.end()) return at + ": has " + item.key();
      if (std::string why = violation(item.value(), member->second, at + "/" + item.key()); !why.empty())
        return why;
    }
    return "";
  }
  bool ok = false;
  if (type == "o") ok = value.is_object();
  if (type == "b") ok = value.is_boolean();
  if (type == "i")
    ok = value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  if (type == "p") ok = value.is_number_integer() && value.get<int64_t>() >= 1;
  if (type == "s") ok = value.is_string();
  if (type == "level") ok = value == "error" || value == "warning" || value == "note";
  if (type == "r") ok = value.is_string() && is_uri_reference(value);
  if (type == "u")
    ok = value.is_string() && is_uri_reference(value) &&
         value.get<std::string>().find(':') != std::string::npos;
  if (type == "t")
    ok = value.is_string() && value.get<std::string>().size() == 20 && value.get<std::string>().back() == 'Z';
  return ok ? "" : at + ": not " + type + ": " + value.dump();
}

OrderedJson run_of(const LintReport& report) {
  const OrderedJson log = test::parsed_json(sarif_report(report));
  CHECK(violation(log, "log", "") == "");
  CHECK(log["version"] == "2.1.0");
  REQUIRE(log["runs"].size() == 1);
  const OrderedJson& run = log["runs"][0];
  const OrderedJson& rules = run["tool"]["driver"]["rules"];
  for (const OrderedJson& result : run["results"]) {
    // ruleIndex and ruleId name the same rule; a base id that is used is defined.
    CHECK(rules[result["ruleIndex"].get<size_t>()]["id"] == result["ruleId"]);
    const OrderedJson& artifact = result["locations"][0]["physicalLocation"]["artifactLocation"];
    if (artifact.contains("uriBaseId"))
      CHECK(run["originalUriBaseIds"].contains(artifact["uriBaseId"].get<std::string>()));
  }
  return run;
}

}  // namespace

TEST_CASE("SARIF: every rule is described") {
  const OrderedJson run = run_of(sample_report());
  const OrderedJson& rules = run["tool"]["driver"]["rules"];
  REQUIRE(rules.size() == all_rules().size());
  CHECK(run["tool"]["driver"]["name"] == "tftf-lint");
  CHECK(run["tool"]["driver"]["version"] == version());
  const std::map<Severity, std::string> levels = {{Severity::kError, "error"},
                                                  {Severity::kWarning, "warning"},
                                                  {Severity::kInfo, "note"},
                                                  {Severity::kHint, "note"}};
  for (size_t i = 0; i < rules.size(); ++i) {
    const RuleInfo& info = all_rules()[i];
    CHECK(rules[i]["id"] == info.id);
    CHECK(rules[i]["name"] == info.name);
    CHECK(rules[i]["defaultConfiguration"]["level"] == levels.at(info.severity));
    CHECK(rules[i]["fullDescription"]["text"] == info.checks);
    CHECK(info.checks.find(rules[i]["shortDescription"]["text"].get<std::string>()) == 0);
    CHECK_FALSE(rules[i]["shortDescription"]["text"].get<std::string>().empty());
    CHECK(rules[i].contains("helpUri"));
  }
}

TEST_CASE("SARIF: results have level, place, region and fingerprint") {
  const OrderedJson run = run_of(sample_report());
  REQUIRE(run["results"].size() == 5);
  CHECK(run["properties"]["truncated"] == false);
  const OrderedJson& folder = run["results"][0];
  CHECK(folder["level"] == "warning");
  CHECK(folder["locations"][0]["physicalLocation"]["artifactLocation"].dump() ==
        R"({"uri":"model/","uriBaseId":"SRCROOT"})");
  CHECK(folder["locations"][0]["logicalLocations"].dump() == R"([{"name":"model","kind":"resource"}])");
  const OrderedJson& hint = run["results"][1];
  CHECK(hint["level"] == "note");
  CHECK(hint["properties"]["severity"] == "hint");
  CHECK_FALSE(hint["locations"][0].contains("logicalLocations"));
  const OrderedJson& binary = run["results"][2];
  CHECK(binary["locations"][0]["physicalLocation"]["region"].dump() ==
        R"({"startLine":1,"byteOffset":1092,"byteLength":4})");
  CHECK(binary["partialFingerprints"]["tftf/v1"] ==
        sha256_hex(std::string("ST041\0b.safetensors\0", 20)).substr(0, 16));
  const OrderedJson& text = run["results"][4];
  CHECK(text["locations"][0]["physicalLocation"]["region"].dump() == R"({"startLine":3,"startColumn":5})");
  CHECK(text["partialFingerprints"]["tftf/v1"] ==
        sha256_hex(std::string("IX005\0model.safetensors.index.json\0w", 36)).substr(0, 16));
}

TEST_CASE("SARIF: places are percent-encoded, absolute ones are file URIs") {
  LintReport report;
  report.inputs = {{"m", true, "", {}, {}}, {"/a b", true, "/a b/", {}, {}}};
  std::vector<PathFindings> paths(2);
  paths[0].findings = {sample_finding(Rule::CF002, "."), sample_finding(Rule::CF002, "c:d/"),
                       sample_finding(Rule::ST055, "\xC3\xA9%\xFF#?.safetensors")};
  paths[1].findings = {sample_finding(Rule::ST055, "x.safetensors")};
  report.issues = apply_policy(paths, report.policy);
  const OrderedJson run = run_of(report);
  const auto artifact = [&](size_t i) {
    return run["results"][i]["locations"][0]["physicalLocation"]["artifactLocation"].dump();
  };
  CHECK(artifact(0) == R"({"uri":"./","uriBaseId":"SRCROOT"})");
  CHECK(artifact(1) == R"({"uri":"c%3Ad/","uriBaseId":"SRCROOT"})");
  CHECK(artifact(2) == R"({"uri":"%C3%A9%25%FF%23%3F.safetensors","uriBaseId":"SRCROOT"})");
  CHECK(artifact(3) == R"({"uri":"file:///a%20b/x.safetensors"})");
}

TEST_CASE("SARIF: at most 5,000 results, errors first") {
  LintReport report;
  report.policy.max_issues = 0;
  report.inputs.resize(1);
  std::vector<PathFindings> paths(1);
  for (int i = 0; i < 3000; ++i) {
    paths[0].findings.push_back(sample_finding(Rule::ST044, "f" + std::to_string(i)));
    paths[0].findings.push_back(sample_finding(Rule::ST041, "f" + std::to_string(i)));
  }
  report.issues = apply_policy(paths, report.policy);
  const OrderedJson run = run_of(report);
  CHECK(run["results"].size() == 5000);
  CHECK(run["properties"]["truncated"] == true);
  size_t errors = 0;
  for (const OrderedJson& result : run["results"]) errors += result["level"] == "error";
  CHECK(errors == 3000);
}

TEST_CASE("SARIF: overrides show in the result, not in the rule; a time stamp only when asked for") {
  LintPolicy policy;
  policy.overrides = {{Rule::ST041, Severity::kWarning}};
  LintReport report = sample_report(policy);
  CHECK(run_of(report)["results"][2]["level"] == "warning");
  CHECK_FALSE(run_of(report).contains("invocations"));
  report.timestamp = "2026-01-02T03:04:05Z";
  CHECK(run_of(report)["invocations"][0]["endTimeUtc"] == report.timestamp);
}

TEST_CASE("SARIF is valid with any name, and carries names exactly") {
  const OrderedJson run = run_of(hostile_report());
  CHECK(run["results"].size() == 2 * hostile_names().size());
  CHECK(run["results"][0]["locations"][0]["logicalLocations"][0]["name"] == hostile_names()[0]);
  for (const OrderedJson& result : run["results"]) {
    const std::string message = result["message"]["text"];
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 6000);
  }
}

}  // namespace tftf
