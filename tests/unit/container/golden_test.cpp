// Every single file of the golden set against what is expected of it: the rules that a header alone decides.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "test_files.h"

using namespace tftf;
using nlohmann::json;

namespace {

constexpr const char* kGolden = "golden/safetensors/";

// Rules of the data pass, and the one that is judged per folder.
bool needs_more_than_a_header(std::string_view id) { return id >= "ST080" && id != "ST091"; }

using Issue = std::tuple<std::string, std::string, std::string>;  // rule, file, subject

std::string subject_text(const json& subject) {
  return subject.is_null() ? "(null)" : subject.get<std::string>();
}

bool same_value(const DiagnosticValue& found, const json& expected) {
  if (expected.is_null()) return std::holds_alternative<std::monostate>(found);
  if (expected.is_string()) {
    const auto* text = std::get_if<std::string>(&found);
    return text && *text == expected.get<std::string>();
  }
  if (expected.is_number_unsigned()) {
    const auto* number = std::get_if<uint64_t>(&found);
    return number && *number == expected.get<uint64_t>();
  }
  if (expected.is_array()) {
    const auto* list = std::get_if<Shape>(&found);
    return list && *list == expected.get<Shape>();
  }
  return false;
}

void check_values(const Diagnostic& finding, const json& values) {
  for (const auto& [key, expected] : values.items()) {
    // Free text.
    if (key == "detail" || key == "reason" || key == "what") continue;
    INFO(rule_info(finding.rule).id << " " << key << " " << expected.dump());
    const auto found = std::find_if(finding.values.begin(), finding.values.end(),
                                    [&, name = key](const auto& value) { return value.first == name; });
    REQUIRE(found != finding.values.end());
    CHECK(same_value(found->second, expected));
  }
}

}  // namespace

TEST_CASE("the golden files give exactly the expected findings") {
  const json manifest = json::parse(test::read_test_file(std::string(kGolden) + "manifest.json"));
  size_t files = 0;
  for (const json& one : manifest["cases"]) {
    const std::string id = one["id"];
    const json expect = json::parse(test::read_test_file(kGolden + ("expect/" + id + ".json")));
    const bool folder = expect["operation"] == "lint-folder";
    for (const json& file : expect["files"]) {
      const std::string path = file["path"];
      if (folder && (path.size() < 12 || path.substr(path.size() - 12) != ".safetensors")) continue;
      INFO(id << " " << path);
      const std::string bytes = test::read_test_file(kGolden + ("cases/" + id + "/" + path));
      const HeaderScan scan = test::scan_file(path, bytes);
      ++files;
      std::multiset<Issue> expected;
      for (const json& issue : expect["expect"]["issues"]) {
        const std::string rule = issue["rule"];
        if (rule.substr(0, 2) != "ST" || needs_more_than_a_header(rule) || issue["file"] != path) continue;
        expected.emplace(rule, path, subject_text(issue["subject"]));
      }
      std::multiset<Issue> found;
      for (const Diagnostic& finding : scan.findings) {
        found.emplace(rule_info(finding.rule).id, finding.file, finding.subject.value_or("(null)"));
        for (const json& issue : expect["expect"]["issues"])
          if (issue["rule"] == rule_info(finding.rule).id && issue["file"] == path &&
              subject_text(issue["subject"]) == finding.subject.value_or("(null)") &&
              issue["rule"] != "ST026")  // several of one entry
            check_values(finding, issue["values"]);
      }
      CHECK(found == expected);
      CHECK(scan.omitted.empty());
    }
  }
  CHECK(files > 150);
}
