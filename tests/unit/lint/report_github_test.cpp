#include <catch2/catch.hpp>
#include <sstream>

#include "sample_report.h"

namespace tftf {

using test::hostile_report;
using test::sample_finding;
using test::sample_report;

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// As the runner reads a line: leading white space dropped, then "::command".
std::string command(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos || line.compare(begin, 2, "::") != 0) return "";
  return line.substr(begin + 2, line.find_first_of(" :", begin + 2) - begin - 2);
}

}  // namespace

TEST_CASE("GitHub workflow commands, exactly") {
  CHECK(
      github_report(sample_report()) ==
      "::warning file=model/,title=IX019 SHARD_TOTALS_DIFFER::.: shard files of \"model\" disagree on the "
      "total: [2, 3].\n"
      "::notice file=model/a.safetensors,title=ST044 METADATA_ABSENT::a.safetensors: no `__metadata__`; add "
      "{\"format\":\"pt\"} for older loaders.\n"
      "::error file=model/b.safetensors,title=ST041 TRAILING_BYTES::b.safetensors: 4 bytes after the last "
      "tensor, from file "
      "offset 1092.\n"
      "::notice file=model/model.safetensors.index.json,title=IX007 "
      "TOTAL_SIZE_MISSING::model.safetensors.index.json: "
      "metadata has no total_size.\n"
      "::error file=model/model.safetensors.index.json,line=3,col=5,title=IX005 "
      "INDEX_DUPLICATE_KEY::model.safetensors.index.json: \"w\" occurs 2 times in weight_map.\n"
      "::notice title=tftf-lint::failed: 2 errors, 1 warning, 1 info, 1 hint; 284 rules checked.\n"
      "::group::All findings of tftf-lint\n"
      "warning IX019 SHARD_TOTALS_DIFFER model/: shard files of \"model\" disagree on the total: [2, 3].\n"
      "hint ST044 METADATA_ABSENT model/a.safetensors: no `__metadata__`; add {\"format\":\"pt\"} for older "
      "loaders.\n"
      "error ST041 TRAILING_BYTES model/b.safetensors: 4 bytes after the last tensor, from file offset "
      "1092.\n"
      "info IX007 TOTAL_SIZE_MISSING model/model.safetensors.index.json: metadata has no total_size.\n"
      "error IX005 INDEX_DUPLICATE_KEY model/model.safetensors.index.json: \"w\" occurs 2 times in "
      "weight_map.\n"
      "::endgroup::\n");
}

TEST_CASE("nothing found gives the totals alone") {
  LintReport report;
  report.inputs.resize(1);
  CHECK(github_report(report) ==
        "::notice title=tftf-lint::passed: 0 errors, 0 warnings, 0 infos, 0 hints; 284 rules checked.\n");
}

TEST_CASE("at most ten annotations of each kind, the full list in the group") {
  LintReport report;
  report.inputs.resize(1);
  std::vector<PathFindings> paths(1);
  for (int i = 0; i < 30; ++i)
    for (Rule rule : {Rule::ST041, Rule::ST060, Rule::ST056, Rule::ST044})
      paths[0].findings.push_back(sample_finding(rule, "f", "t" + std::to_string(i)));
  report.issues = apply_policy(paths, report.policy);
  size_t errors = 0, warnings = 0, notices = 0, listed = 0;
  bool in_group = false;
  for (const std::string& line : lines(github_report(report))) {
    const std::string name = command(line);
    if (name == "group") in_group = true;
    if (name == "endgroup") in_group = false;
    errors += name == "error";
    warnings += name == "warning";
    notices += name == "notice";
    listed += in_group && name.empty();
  }
  CHECK(errors == 10);
  CHECK(warnings == 10);
  CHECK(notices == 10);
  CHECK(listed == 120);
  CHECK_FALSE(in_group);
}

TEST_CASE("percent, colon and comma are escaped in properties") {
  LintReport report;
  report.inputs.push_back({"a,b:c%d", true, "a,b:c%d/", {}, {}});
  std::vector<PathFindings> paths(1);
  paths[0].findings = {sample_finding(Rule::ST060, "100%,x:y.safetensors", "")};
  report.issues = apply_policy(paths, report.policy);
  CHECK(lines(github_report(report))[0] ==
        "::warning file=a%2Cb%3Ac%25d/100%25%2Cx%3Ay.safetensors,title=ST060 NAME_EMPTY::"
        "100%25,x:y.safetensors: a tensor has an empty name.");
}

TEST_CASE("no hostile name starts a command of its own") {
  const std::string text = github_report(hostile_report());
  size_t errors = 0, others = 0;
  for (const std::string& line : lines(text)) {
    INFO(line);
    CHECK(line.find("##[") == std::string::npos);
    const std::string name = command(line);
    if (name == "error" || name == "warning" || name == "notice") {
      // Exactly one place ends the properties; the rest of the line is data.
      const size_t end = line.find("::", 2);
      REQUIRE(end != std::string::npos);
      CHECK(line.substr(2, end - 2).find(':') == std::string::npos);
      ++errors;
    } else if (!name.empty()) {
      CHECK((name == "group" || name == "endgroup"));
      ++others;
    } else {
      CHECK((line.rfind("error ST", 0) == 0 || line.rfind("warning ST", 0) == 0));
    }
  }
  CHECK(errors == 21);
  CHECK(others == 2);
}

}  // namespace tftf
