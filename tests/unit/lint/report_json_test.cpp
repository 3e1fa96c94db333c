#include <catch2/catch.hpp>

#include "sample_report.h"
#include "tftf/base/json_text.h"
#include "tftf/base/version.h"

namespace tftf {

using test::hostile_names;
using test::hostile_report;
using test::sample_finding;
using test::sample_report;

namespace {

OrderedJson parsed_json(const std::string& text) {
  CHECK(text.back() == '\n');
  return test::parsed_json(text);
}

std::vector<std::string> keys(const OrderedJson& object) {
  std::vector<std::string> out;
  for (const auto& item : object.items()) out.push_back(item.key());
  return out;
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("the JSON report has exactly the fields of the specification, in order") {
  const OrderedJson report = parsed_json(json_report(sample_report()));
  CHECK(keys(report) == Keys{"validator", "input", "issues", "info"});
  CHECK(report["validator"] == OrderedJson({{"name", "tftf-lint"}, {"version", version()}}));
  CHECK(report["input"] == "model");
  CHECK(keys(report["issues"]) ==
        Keys{"numErrors", "numWarnings", "numInfos", "numHints", "messages", "truncated"});
  CHECK(report["issues"]["numErrors"] == 2);
  CHECK(report["issues"]["numWarnings"] == 1);
  CHECK(report["issues"]["numInfos"] == 1);
  CHECK(report["issues"]["numHints"] == 1);
  CHECK(report["issues"]["truncated"] == false);
  REQUIRE(report["issues"]["messages"].size() == 5);
  for (const OrderedJson& issue : report["issues"]["messages"])
    CHECK(keys(issue) ==
          Keys{"rule", "name", "severity", "message", "file", "subject", "pointer", "offset", "values"});
  CHECK(
      report["issues"]["messages"][2].dump() ==
      R"({"rule":"ST041","name":"TRAILING_BYTES","severity":0,"message":"b.safetensors: 4 bytes after the last tensor, )"
      R"(from file offset 1092.","file":"b.safetensors","subject":null,"pointer":null,"offset":1092,)"
      R"("values":{"count":4,"offset":1092,"sniff":""}})");
  CHECK(
      report["issues"]["messages"][4].dump() ==
      R"({"rule":"IX005","name":"INDEX_DUPLICATE_KEY","severity":0,"message":"model.safetensors.index.json: \"w\" occurs )"
      R"(2 times in weight_map.","file":"model.safetensors.index.json","subject":"w","pointer":"/weight_map/w",)"
      R"("offset":40,"values":{"key":"w","count":2,"where":"weight_map"}})");
}

TEST_CASE("the JSON report describes readable files and folders") {
  const OrderedJson info = parsed_json(json_report(sample_report()))["info"];
  CHECK(
      info.dump() ==
      R"({"files":[{"file":"a.safetensors","size":1096,"headerLength":1000,"tensors":3,)"
      R"("dtypes":{"BF16":{"tensors":1,"elements":8,"bytes":16},"F32":{"tensors":2,"elements":7,"bytes":28}},)"
      R"("format":"pt","metadataKeys":["format","note"]}],)"
      R"("folders":[{"folder":".","shards":["a.safetensors","b.safetensors"],)"
      R"("index":"model.safetensors.index.json","modelType":"llama","adapter":null}],"skippedLinks":[]})");
  LintReport report = sample_report();
  AdapterFacts adapter;
  adapter.peft_type = "LORA";
  adapter.rank = 16;
  adapter.alpha = "32";
  adapter.modules = 4;
  report.inputs[0].folders[0].adapter = adapter;
  report.inputs[0].folders[0].model_type.clear();
  report.inputs[0].folders[0].indexes = {"a.safetensors.index.json", "model.safetensors.index.json"};
  report.inputs[0].files[0].scan.header.metadata.clear();
  const OrderedJson changed = parsed_json(json_report(report))["info"];
  CHECK(changed["folders"][0]["adapter"].dump() ==
        R"({"peftType":"LORA","rank":16,"alpha":"32","baseModel":null,"modules":4})");
  CHECK(changed["folders"][0]["modelType"].is_null());
  CHECK(changed["folders"][0]["index"] == "model.safetensors.index.json");
  CHECK(changed["files"][0]["format"].is_null());
}

TEST_CASE("a time stamp only when asked for") {
  LintReport report = sample_report();
  CHECK(json_report(report) == json_report(sample_report()));
  report.timestamp = "2026-01-02T03:04:05Z";
  CHECK(parsed_json(json_report(report))["timestamp"] == "2026-01-02T03:04:05Z");
}

TEST_CASE("several PATHs are told apart") {
  LintReport report = sample_report();
  report.inputs.push_back(report.inputs[0]);
  report.inputs[1].given = "other";
  report.issues.issues.push_back(report.issues.issues[0]);
  report.issues.issues.back().input = 1;
  const OrderedJson json = parsed_json(json_report(report));
  CHECK(json["input"] == OrderedJson({"model", "other"}));
  CHECK(json["issues"]["messages"][0]["input"] == 0);
  CHECK(json["issues"]["messages"][5]["input"] == 1);
  CHECK(json["info"]["files"][1]["input"] == 1);
  CHECK(json["info"]["folders"][1]["input"] == 1);
}

TEST_CASE("values of every kind, and numbers beyond 2^53 as text") {
  LintReport report;
  report.inputs.resize(1);
  std::vector<PathFindings> paths(1);
  paths[0].findings = {sample_finding(Rule::ST022, "f", "a\u00e9",
                                      {{"none", {}},
                                       {"text", std::string("x")},
                                       {"big", UINT64_MAX},
                                       {"safe", (uint64_t{1} << 53) - 1},
                                       {"signed", int64_t{-5}},
                                       {"real", 0.5},
                                       {"nan", std::numeric_limits<double>::quiet_NaN()},
                                       {"texts", std::vector<std::string>{"a", "b"}},
                                       {"numbers", std::vector<uint64_t>{1, UINT64_MAX}}})};
  paths[0].findings[0].offset = UINT64_MAX;
  report.issues = apply_policy(paths, report.policy);
  const OrderedJson issue = parsed_json(json_report(report))["issues"]["messages"][0];
  CHECK(issue["offset"] == "18446744073709551615");
  CHECK(
      issue["values"].dump() ==
      R"({"none":null,"text":"x","big":"18446744073709551615","safe":9007199254740991,"signed":-5,"real":0.5,)"
      R"("nan":"NaN","texts":["a","b"],"numbers":[1,"18446744073709551615"],"tensor":"aé"})");
}

TEST_CASE("the limit is told by truncated, the counts stay whole") {
  LintPolicy policy;
  policy.max_issues = 1;
  LintReport report;
  report.inputs.resize(1);
  std::vector<PathFindings> paths(1);
  paths[0].findings = {sample_finding(Rule::ST060, "f", ""), sample_finding(Rule::ST060, "f", "")};
  report.issues = apply_policy(paths, policy);
  const OrderedJson issues = parsed_json(json_report(report))["issues"];
  CHECK(issues["numWarnings"] == 2);
  CHECK(issues["messages"].size() == 1);
  CHECK(issues["truncated"] == true);
}

TEST_CASE("JSON carries names exactly, whatever they hold") {
  const OrderedJson report = parsed_json(json_report(hostile_report()));
  size_t exact = 0;
  for (const std::string& name : hostile_names()) {
    const OrderedJson& issue = report["issues"]["messages"][2 * exact];
    INFO(issue["message"]);
    if (OrderedJson(name).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) ==
        OrderedJson(name).dump(-1, ' ', false, OrderedJson::error_handler_t::ignore)) {
      CHECK(issue["subject"] == name);
      CHECK(issue["values"]["other"] == name);
      CHECK(issue["file"] == name + ".safetensors");
    }
    ++exact;
  }
  CHECK(report["info"]["files"].size() == hostile_names().size());
}

TEST_CASE("the catalogue as data") {
  const OrderedJson all = parsed_json(rules_json());
  REQUIRE(all["rules"].size() == all_rules().size());
  for (size_t i = 0; i < all_rules().size(); ++i) {
    const RuleInfo& info = all_rules()[i];
    CHECK(keys(all["rules"][i]) == Keys{"id", "name", "severity", "checks", "message", "peers", "example"});
    CHECK(all["rules"][i] == parsed_json(rule_json(info.rule)));
    CHECK(all["rules"][i]["id"] == info.id);
  }
}

}  // namespace tftf
