// tftf-lint as people start it: options, exit statuses, reports, files.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "run_program.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"
#include "tftf/diagnostic/diagnostic.h"
#include "xml_check.h"

namespace fs = std::filesystem;

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kLint = TFTF_BIN "/tftf-lint";
const std::string kLintCases = TFTF_TEST_DATA "/golden/safetensors/cases";

ProgramRun lint(std::vector<std::string> arguments, const std::string& folder = kLintCases,
                const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), kLint);
  ProgramRun run = test::run_program(arguments, folder, environment);
  INFO(run.err);
  // A defect, or a death by signal, is never right.
  REQUIRE(run.status >= 0);
  REQUIRE(run.status <= 2);
  return run;
}

OrderedJson lint_json(std::vector<std::string> arguments, const std::string& folder = kLintCases) {
  arguments.insert(arguments.begin(), "--json");
  return OrderedJson::parse(lint(std::move(arguments), folder).out);
}

std::vector<std::string> rules_of(const OrderedJson& report) {
  std::vector<std::string> out;
  for (const OrderedJson& issue : report["issues"]["messages"]) out.push_back(issue["rule"]);
  return out;
}

const std::string kSound = "ok-one-f32/model.safetensors";
std::string trailing(const ScratchFolder& s, const std::string& name = "model.safetensors") {
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  return s.write(name, text + header + "abcd" + "xx");
}

}  // namespace

TEST_CASE("exit 0 without findings, 1 at the fail level, 2 for usage") {
  ScratchFolder s;
  trailing(s);
  CHECK(lint({kSound}).status == 0);
  CHECK(lint({s.path()}).status == 1);
  CHECK(lint({"--severity", "ST041=warning", s.path()}).status == 0);
  CHECK(lint({"--severity", "ST041=warning", "--strict", s.path()}).status == 1);
  CHECK(lint({"--severity", "ST041=warning", "--fail-on", "warning", s.path()}).status == 1);
  CHECK(lint({"--severity", "ST041=info", "--fail-on", "warning", s.path()}).status == 0);
  CHECK(lint({"--severity", "ST041=info", "--fail-on", "info", s.path()}).status == 1);
  CHECK(lint({"--severity", "ST041=hint", "--fail-on", "info", "--ignore", "CF002", s.path()}).status == 0);
  CHECK(lint({"--ignore", "ST041", s.path()}).status == 0);
  CHECK(lint({"--only", "ST042,ST043", s.path()}).status == 0);
  CHECK(lint({"--only", "ST042", "--only", "ST041", s.path()}).status == 1);
}

TEST_CASE("what is wrong with the command line is said, with exit 2 and nothing on stdout") {
  ScratchFolder s;
  const std::string config = s.write("bad.json", R"({"ignore":["ST999"]})");
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--bogus", kSound},
      {"nowhere"},
      {kSound, "nowhere"},
      {"--only", "ST041", "--ignore", "ST042", kSound},
      {"--ignore", "ST999", kSound},
      {"--only", "ST41", kSound},
      {"--severity", "ST041", kSound},
      {"--severity", "ST041=fatal", kSound},
      {"--fail-on", "hint", kSound},
      {"--fail-on", "error", "--strict", kSound},
      {"--max-issues", "-1", kSound},
      {"--max-issues", "many", kSound},
      {"--max-issues", "99999999999999999999", kSound},
      {"--format", "xml", kSound},
      {"--threads", "0", kSound},
      {"--max-header", "x", kSound},
      {"--simd", "mmx", kSound},
      {"--config", "nowhere.json", kSound},
      {"--config", config, kSound},
      {"--base", "nowhere", kSound},
      {"--base", kSound, kSound},
      {"--format", kSound},
      {"rules", "ST999"},
      {"rules", "ST041", "ST042"},
      {kSound, "rules"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    std::string line;
    for (const std::string& argument : arguments) line += argument + " ";
    INFO(line);
    const ProgramRun run = lint(arguments);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK(run.err.rfind("tftf-lint: ", 0) == 0);
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
}

TEST_CASE("a failure with --json is data on stdout too") {
  for (const std::vector<std::string>& form : {std::vector<std::string>{"--json"}, {"--format", "json"}}) {
    std::vector<std::string> arguments = form;
    arguments.push_back("nowhere");
    const ProgramRun run = lint(arguments);
    CHECK(run.status == 2);
    CHECK(OrderedJson::parse(run.out)["error"]["code"] == "usage-path");
    CHECK(OrderedJson::parse(run.out)["error"]["file"] == "nowhere");
  }
}

TEST_CASE("help and version") {
  const ProgramRun help = lint({"--help"});
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  for (const char* word :
       {"--data",     "--base",        "--format",  "--json",    "--output", "--ignore",    "--only",
        "--severity", "--max-issues",  "--fail-on", "--strict",  "--config", "--timestamp", "--max-header",
        "--threads",  "--no-progress", "--quiet",   "--verbose", "--simd",   "Examples:",   "Exit status"}) {
    INFO(word);
    CHECK(help.out.find(word) != std::string::npos);
  }
  CHECK(lint({"--version"}).out.rfind("tftf-lint, version ", 0) == 0);
  CHECK(test::run_program({TFTF_BIN "/tftf", "lint", "--help"}).out.find("--max-issues") !=
        std::string::npos);
}

TEST_CASE("tftf lint is the same program") {
  ScratchFolder s;
  trailing(s);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{s.path()},
                                                    {"--json", s.path()},
                                                    {"--format", "sarif", s.path()},
                                                    {kSound},
                                                    {"--fail-on", "info", kSound},
                                                    {"rules"},
                                                    {"rules", "ST041"},
                                                    {"nowhere"}}) {
    std::vector<std::string> longer = {TFTF_BIN "/tftf", "lint"};
    longer.insert(longer.end(), arguments.begin(), arguments.end());
    const ProgramRun one = lint(arguments);
    const ProgramRun other = test::run_program(longer, kLintCases);
    CHECK(one.status == other.status);
    CHECK(one.out == other.out);
  }
}

TEST_CASE("the configuration file, and the command line before it") {
  ScratchFolder s;
  trailing(s);
  const std::string config =
      s.write("lint.json", R"({"override":{"ST041":"warning"},"ignore":["CF002"],"max-issues":5})");
  CHECK(lint({"--config", config, s.path()}).status == 0);
  CHECK(rules_of(lint_json({"--config", config, s.path()})) == std::vector<std::string>{"ST041"});
  CHECK(lint({"--config", config, "--severity", "ST041=error", s.path()}).status == 1);
  CHECK(rules_of(lint_json({"--config", config, "--only", "CF002", s.path()})) ==
        std::vector<std::string>{"CF002"});
}

TEST_CASE("one report, whatever the path is called") {
  ScratchFolder s;
  trailing(s, "m/model.safetensors");
  const OrderedJson folder = lint_json({s / "m"});
  const OrderedJson file = lint_json({s / "m/model.safetensors"});
  CHECK(folder["input"] == s / "m");
  const auto trailing_of = [](const OrderedJson& report) {
    for (const OrderedJson& issue : report["issues"]["messages"])
      if (issue["rule"] == "ST041") return issue;
    return OrderedJson();
  };
  CHECK(trailing_of(folder) == trailing_of(file));
  CHECK(trailing_of(file)["file"] == "model.safetensors");
  CHECK(file["info"]["files"][0]["tensors"] == 1);
  // SARIF and GitHub name places from where the program was started.
  const auto uri = [&](const std::string& path) {
    const OrderedJson log =
        OrderedJson::parse(lint({"--format", "sarif", "--only", "ST041", path}, s.path()).out);
    return log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"].dump();
  };
  const std::string relative = R"({"uri":"m/model.safetensors","uriBaseId":"SRCROOT"})";
  for (const std::string& path :
       {std::string("m"), std::string("./m/"), std::string("m/model.safetensors"), std::string("."), s / "m"})
    CHECK(uri(path) == relative);
  CHECK(lint({"--format", "github", "--only", "ST041", "m"}, s.path())
            .out.rfind("::error file=m/model.safetensors,", 0) == 0);
}

TEST_CASE("several PATHs make one report") {
  ScratchFolder s;
  trailing(s, "x/model.safetensors");
  trailing(s, "y/model.safetensors");
  const OrderedJson report = lint_json({"--only", "ST041", s / "x", s / "y/model.safetensors"});
  CHECK(report["input"] == OrderedJson({s / "x", s / "y/model.safetensors"}));
  CHECK(report["issues"]["numErrors"] == 2);
  CHECK(report["issues"]["messages"][1]["input"] == 1);
}

TEST_CASE("--output writes the report there and nothing to stdout") {
  ScratchFolder s;
  trailing(s, "m/model.safetensors");
  const std::string expected = lint({"--format", "junit", s / "m"}).out;
  const ProgramRun run = lint({"--format", "junit", "--output", s / "report.xml", s / "m"});
  CHECK(run.status == 1);
  CHECK(run.out.empty());
  CHECK(s.read("report.xml") == expected);
  CHECK_FALSE(fs::exists(s / "report.xml.tftf-part"));
  // Again over the old one, also inside the linted folder; into a device.
  CHECK(lint({"--json", "--output", s / "report.xml", s / "m"}).status == 1);
  CHECK(s.read("report.xml")[0] == '{');
  CHECK(lint({"--json", "--output", s / "m/report.json", s / "m"}).status == 1);
  CHECK(lint({"--json", "--output", s / "m/report.json", s / "m"}).status == 1);
  CHECK(lint({"--json", "--output", "/dev/null", s / "m"}).status == 1);
}

TEST_CASE("--output into a FIFO that nobody reads is an error, not a wait") {
  ScratchFolder s;
  trailing(s, "m/model.safetensors");
  REQUIRE(::mkfifo((s / "fifo").c_str(), 0600) == 0);
  const ProgramRun run = lint({"--output", s / "fifo", s / "m"});
  CHECK(run.status != 0);
  CHECK(run.err.find("fifo") != std::string::npos);
}

TEST_CASE("--output never overwrites what is linted") {
  ScratchFolder s;
  const std::string model = trailing(s, "m/model.safetensors");
  s.write("m/config.json", "{}");
  fs::create_hard_link(model, s / "other-name");
  const std::string before = s.read("m/model.safetensors");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--output", model, model},
                                                    {"--output", model, s / "m"},
                                                    {"--output", s / "m/config.json", s / "m"},
                                                    {"--output", s / "other-name", s / "m"},
                                                    {"--output", s / "m", model}}) {
    const ProgramRun run = lint(arguments);
    CHECK(run.status == 1);
    CHECK(run.err.find("tftf-lint: ") == 0);
  }
  CHECK(s.read("m/model.safetensors") == before);
  CHECK(s.read("m/config.json") == "{}");
  const ProgramRun nowhere = lint({"--output", s / "no/folder/report", model});
  CHECK(nowhere.status == 1);
  CHECK(nowhere.err.find("no/folder\": No such file") != std::string::npos);
}

TEST_CASE("a full destination is a failure, not a clean report") {
  const ProgramRun run = lint({"--output", "/dev/full", kSound});
  CHECK(run.status == 1);
  CHECK(run.err.find("No space left") != std::string::npos);
}

TEST_CASE("unreadable and strange files are ST009 and exit 1") {
  ScratchFolder s;
  REQUIRE(::mkfifo((s / "pipe.safetensors").c_str(), 0600) == 0);
  CHECK(rules_of(lint_json({s / "pipe.safetensors"})) == std::vector<std::string>{"ST009"});
  CHECK(lint({s / "pipe.safetensors"}).status == 1);
  CHECK(lint({s.path()}).status == 1);
  CHECK(lint({"/dev/zero"}).status == 1);
  fs::create_symlink("loop.safetensors", s / "loop.safetensors");
  CHECK(lint({s / "loop.safetensors"}).status == 1);
}

TEST_CASE("a folder without weights is checked for what it has; one that has nothing to check is refused") {
  ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  scratch.write("README.md", "a model");
  const ProgramRun nothing = lint({folder});
  CHECK(nothing.status == 1);
  CHECK(nothing.out.empty());
  CHECK(nothing.err.find("holds nothing to check") != std::string::npos);
  const ProgramRun json = lint({"--json", folder});
  CHECK(json.status == 1);
  CHECK(json.out.find("refused-missing") != std::string::npos);
  scratch.write("config.json", R"({"model_type":"llama"})");
  const ProgramRun run = lint({folder});
  CHECK(run.out.find("no .safetensors file was found") != std::string::npos);
}

TEST_CASE("quiet says nothing when nothing fails") {
  const ProgramRun run = lint({"-q", kSound});
  CHECK(run.status == 0);
  CHECK(run.out.empty());
  CHECK(run.err.empty());
}

TEST_CASE("no colours where no terminal is, no time stamp unless asked for") {
  ScratchFolder s;
  trailing(s);
  CHECK(lint({s.path()}).out.find('\x1b') == std::string::npos);
  for (const char* format : {"text", "json", "sarif", "github", "junit"}) {
    INFO(format);
    const std::string once = lint({"--format", format, s.path()}).out;
    CHECK(once == lint({"--format", format, s.path()}).out);
    CHECK(lint({"--format", format, "--timestamp", s.path()}).out != once);
  }
}

TEST_CASE("the data pass: same report for any number of threads and any kernels") {
  for (const char* name :
       {"dt-nan", "dt-duplicate", "dt-zero-tail", "cf-head-redundant-differs", "lo-b-zero"}) {
    const std::string expected = lint({"--json", "--data", name}).out;
    for (const char* threads : {"1", "2", "8"})
      for (const char* simd : {"scalar", ""})
        CHECK(lint({"--json", "--data", "--threads", threads, name}, kLintCases,
                   {"TFTF_SIMD=" + std::string(simd)})
                  .out == expected);
  }
  CHECK(lint({"--data", "dt-zero"}).out.find("need --data") == std::string::npos);
}

TEST_CASE("every case of the corpus in every format") {
  // The same cases run inside the unit tests, too.
  size_t at = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kLintCases)) {
    if (test::kSanitized && at++ % 8 != 0) continue;
    const std::string name = entry.path().filename();
    INFO(name);
    const OrderedJson report = lint_json({name});
    const OrderedJson sarif = OrderedJson::parse(lint({"--format", "sarif", name}).out);
    CHECK(sarif["runs"][0]["results"].size() == report["issues"]["messages"].size());
    std::string problem;
    CHECK(test::parse_xml(lint({"--format", "junit", name}).out, problem).has_value());
    CHECK(problem.empty());
    const std::string text = lint({name}).out;
    CHECK(text.find(report["issues"]["numErrors"] == 0 ? "passed" : "failed") != std::string::npos);
  }
}

TEST_CASE("hostile names from a real file start no command and no line of their own") {
  const ProgramRun run = lint({"--format", "github", "st-name-newline"});
  size_t commands = 0;
  for (size_t at = 0; at < run.out.size(); at = run.out.find('\n', at) + 1)
    commands += run.out.compare(at, 2, "::") == 0;
  CHECK(run.out.find("\n::error file=x") == std::string::npos);
  CHECK(commands >= 3);
  CHECK(lint({"st-name-newline"}).out.find("w\\u{000A}::error") != std::string::npos);
}

TEST_CASE("the header limit can be raised and lowered") {
  ScratchFolder s;
  const std::string path = trailing(s);
  CHECK(rules_of(lint_json({"--max-header", "16", path})) == std::vector<std::string>{"ST010"});
  CHECK(rules_of(lint_json({"--max-header", "1GB", path})) == std::vector<std::string>{"ST041"});
}

TEST_CASE("--max-issues limits messages, not counts") {
  ScratchFolder s;
  std::string header = "{";
  for (int i = 0; i < 300; ++i)
    header += (i == 0 ? "" : ",") + std::string("\"a\\u00") + "01" + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size() & 255);
  text[1] = static_cast<char>(header.size() >> 8);
  const std::string path = s.write("m.safetensors", text + header);
  const auto count = [&](const std::string& limit) {
    const OrderedJson report = lint_json({"--only", "ST062", "--max-issues", limit, path});
    CHECK(report["issues"]["numWarnings"] == 300);
    CHECK(report["issues"]["truncated"] == (limit == "7"));
    return report["issues"]["messages"].size();
  };
  CHECK(count("7") == 7);
  CHECK(count("0") == 300);
  CHECK(lint_json({"--only", "ST062", path})["issues"]["messages"].size() == 100);
}

}  // namespace tftf
