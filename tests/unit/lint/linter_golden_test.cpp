// Every case of the golden set through the runner: folders, files, --base and the data pass.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "lint_host.h"
#include "test_files.h"

using namespace tftf;
using nlohmann::json;

namespace {

const std::string kGolden = "golden/safetensors/";

test::MemoryFiles files_of(const json& expect, const std::string& folder) {
  test::MemoryFiles files;
  for (const json& file : expect["files"]) {
    const std::string path = file["path"];
    files[path] = test::read_test_file(kGolden + folder + "/" + path);
  }
  return files;
}

// (rule, severity, file, subject)
using ExpectedIssue = std::tuple<std::string, std::string, std::string, std::string>;

}  // namespace

TEST_CASE("the runner finds what the golden cases list") {
  const json manifest = json::parse(test::read_test_file(kGolden + "manifest.json"));
  size_t cases = 0;
  for (const json& one : manifest["cases"]) {
    const std::string id = one["id"];
    INFO(id);
    const json expect = json::parse(test::read_test_file(kGolden + "expect/" + id + ".json"));
    const test::MemoryFiles files = files_of(expect, "cases/" + id);
    std::string main;
    if (expect["operation"] == "lint-file") {
      const std::string input = expect["input"];
      main = input.substr(input.rfind('/') + 1);
    }
    test::MemoryFiles base;
    const json& options = expect["options"];
    if (options["base"].is_string()) {
      const std::string folder = options["base"];
      base = files_of(json::parse(test::read_test_file(kGolden + "expect/" + folder.substr(6) + ".json")),
                      folder);
    }
    LintResult result = test::run_lint(files, main, base.empty() ? nullptr : &base);
    CHECK_FALSE(result.base_problem);
    if (options["data"] == true)
      for (Diagnostic& finding : check_data(result, test::data_statistics(result, files)))
        result.findings.push_back(std::move(finding));

    std::set<ExpectedIssue> expected;
    for (const json& issue : expect["expect"]["issues"])
      expected.emplace(issue["rule"], issue["severity"], issue["file"],
                       issue["subject"].is_null() ? "-" : issue["subject"]);
    std::set<ExpectedIssue> found;
    for (const Diagnostic& finding : result.findings) {
      const RuleInfo& rule = rule_info(finding.rule);
      found.emplace(rule.id, severity_name(rule.severity), finding.file, finding.subject.value_or("-"));
    }
    CHECK(found == expected);
    ++cases;
  }
  CHECK(cases == manifest["cases"].size());
}
