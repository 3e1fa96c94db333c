#include <catch2/catch.hpp>

#include "sample_report.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {

using test::hostile_names;
using test::hostile_report;
using test::sample_finding;
using test::sample_report;

namespace {

LintReport clean_report() {
  LintReport report;
  report.inputs.resize(1);
  report.inputs[0].given = "m.safetensors";
  report.inputs[0].files.resize(1);
  return report;
}

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n', text.size() - 2) + 1); }

}  // namespace

TEST_CASE("the text report groups by file and ends with the outcome and what was checked") {
  CHECK(text_report(sample_report()) ==
        "model/\n"
        "  ▲ warning  IX019 SHARD_TOTALS_DIFFER  shard files of \"model\" disagree on the total: [2, 3].\n"
        "\n"
        "model/a.safetensors\n"
        "  · hint     ST044 METADATA_ABSENT  no `__metadata__`; add {\"format\":\"pt\"} for older loaders.\n"
        "\n"
        "model/b.safetensors\n"
        "  ✖ error    ST041 TRAILING_BYTES  4 bytes after the last tensor, from file offset 1092.\n"
        "\n"
        "model/model.safetensors.index.json\n"
        "  ℹ info     IX007 TOTAL_SIZE_MISSING  metadata has no total_size.\n"
        "  ✖ error    IX005 INDEX_DUPLICATE_KEY  \"w\" occurs 2 times in weight_map. (line 3, column 5)\n"
        "\n"
        "✖ failed: 2 errors, 1 warning, 1 info, 1 hint.\n"
        "284 of 304 rules checked (17 more need --data, 3 --base), 2 files.\n");
}

TEST_CASE("the summary counts the rules that really ran") {
  LintReport report = clean_report();
  CHECK(text_report(report) ==
        "✔ passed: no findings.\n284 of 304 rules checked (17 more need --data, 3 --base), 1 file.\n");
  report.with_data = true;
  CHECK(last_line(text_report(report)) == "301 of 304 rules checked (3 more need --base), 1 file.\n");
  report.with_base = true;
  CHECK(last_line(text_report(report)) == "304 of 304 rules checked, 1 file.\n");
  report.policy.ignore = {Rule::ST041, Rule::ST080};
  report.policy.fail_on = Severity::kWarning;
  report.timestamp = "2026-01-02T03:04:05Z";
  CHECK(last_line(text_report(report)) ==
        "302 of 304 rules checked, 1 file; fails from warning on. 2026-01-02T03:04:05Z\n");
  report.inputs[0].files.clear();
  report.policy = {};
  report.timestamp.clear();
  CHECK(last_line(text_report(report)) == "304 of 304 rules checked; no .safetensors file was found.\n");
}

TEST_CASE("quiet shows what fails and nothing else") {
  CHECK(text_report(clean_report(), {.quiet = true}).empty());
  LintPolicy policy;
  policy.only = {Rule::IX019, Rule::ST044};
  CHECK(text_report(sample_report(policy), {.quiet = true}).empty());
  policy.fail_on = Severity::kWarning;
  CHECK(text_report(sample_report(policy), {.quiet = true}) ==
        "model/\n  ▲ warning  IX019 SHARD_TOTALS_DIFFER  shard files of \"model\" disagree on the total: [2, "
        "3].\n");
}

TEST_CASE("verbose explains each rule that fired, once") {
  LintPolicy policy;
  policy.only = {Rule::ST044};
  LintReport report = sample_report(policy);
  report.issues.issues.push_back(report.issues.issues[0]);
  const std::string text = text_report(report, {.verbose = true});
  CHECK(text.find("ST044 METADATA_ABSENT (hint)\n"
                  "  checks   No `__metadata__`.\n"
                  "  says     {file}: no `__metadata__`; add {\"format\":\"pt\"} for older loaders.\n"
                  "  readers  ref accepts; transformers < 4.48.2 raises AttributeError\n") !=
        std::string::npos);
  CHECK(text.find("(hint)", text.find("(hint)") + 1) == std::string::npos);
}

TEST_CASE("colours only when asked, and they are always reset") {
  CHECK(text_report(sample_report()).find('\x1b') == std::string::npos);
  const std::string text = text_report(sample_report(), {.colour = true});
  size_t on = 0, off = 0;
  for (size_t at = text.find("\x1b["); at != std::string::npos; at = text.find("\x1b[", at + 1))
    ++(text.substr(at, 4) == "\x1b[0m" ? off : on);
  CHECK(on > 0);
  CHECK(on == off);
}

TEST_CASE("what the limit cut is counted in the text") {
  LintReport report;
  report.policy.max_issues = 2;
  report.inputs.push_back({"m", true, "m/", {}, {}});
  std::vector<PathFindings> paths(1);
  for (int i = 0; i < 5; ++i) paths[0].findings.push_back(sample_finding(Rule::ST060, "a.safetensors", ""));
  paths[0].omitted = {{"b.safetensors", Rule::ST041, 7}};
  report.issues = apply_policy(paths, report.policy);
  CHECK(text_report(report) ==
        "m/a.safetensors\n"
        "  ▲ warning  ST060 NAME_EMPTY  a tensor has an empty name.\n"
        "  ▲ warning  ST060 NAME_EMPTY  a tensor has an empty name.\n"
        "  … and 3 more ST060\n"
        "\n"
        "m/b.safetensors\n"
        "  … and 7 more ST041\n"
        "\n"
        "✖ failed: 7 errors, 5 warnings, 0 infos, 0 hints.\n"
        "284 of 304 rules checked (17 more need --data, 3 --base); no .safetensors file was found.\n");
}

TEST_CASE("a fact about every file of a large model is told once, a fault in each") {
  LintReport report;
  report.inputs.push_back({"m", true, "m/", {}, {}});
  std::vector<PathFindings> paths(1);
  for (int i = 1; i <= 4; ++i) {
    const std::string file = std::to_string(i) + ".safetensors";
    paths[0].findings.push_back(sample_finding(Rule::ST048, file));
    paths[0].findings.push_back(sample_finding(Rule::ST048, file));
    if (i < 4) paths[0].findings.push_back(sample_finding(Rule::ST044, file));
    paths[0].findings.push_back(sample_finding(Rule::ST055, file));
  }
  report.issues = apply_policy(paths, report.policy);
  const std::string text = text_report(report);
  CHECK(text.find("In many files (-v shows all)\n"
                  "  ℹ info     ST048 METADATA_EMPTY  4 files, first m/1.safetensors: `__metadata__` is "
                  "empty.\n\n") != std::string::npos);
  const auto count = [](const std::string& in, const std::string& what) {
    size_t n = 0;
    for (size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count(text, "ST048") == 1);
  CHECK(count(text, "ST044") == 3);
  CHECK(count(text, "ST055") == 4);
  CHECK(count(text_report(report, {.verbose = true}), "  ℹ info     ST048") == 8);
}

TEST_CASE("what is said of many layers is told once, in the order of their numbers") {
  LintReport report;
  report.inputs.push_back({"m", true, "m/", {}, {}});
  const auto missing = [](int layer, const std::string& name) {
    return sample_finding(Rule::CF027, "config.json", "model.layers." + std::to_string(layer) + "." + name);
  };
  std::vector<PathFindings> paths(1);
  for (const int layer : {10, 2, 11, 100}) paths[0].findings.push_back(missing(layer, "a.weight"));
  paths[0].findings.push_back(missing(10, "b.weight"));
  paths[0].findings.push_back(sample_finding(Rule::CF027, "config.json", "norm.2"));
  paths[0].findings.push_back(sample_finding(Rule::CF027, "config.json", "norm.weight"));
  for (const uint64_t layer : {uint64_t{12}, uint64_t{3}, uint64_t{4}}) {
    const std::vector<std::string> lacked = {layer == 4 ? "b.weight" : "a.weight"};
    paths[0].findings.push_back(sample_finding(Rule::CF014, "config.json",
                                               "model.layers." + std::to_string(layer),
                                               {{"layer", layer}, {"tensors", lacked}}));
  }
  report.issues = apply_policy(paths, report.policy);
  const std::string text = text_report(report);
  INFO(text);
  const std::string head = "  ✖ error    CF027 TENSOR_REQUIRED_MISSING  ";
  const std::string incomplete = "  ✖ error    CF014 LAYER_INCOMPLETE  ";
  CHECK(text.find("m/config.json\n" + incomplete + "2 alike, first: layer 3 lacks a.weight.\n" + incomplete +
                  "layer 4 lacks b.weight.\n" + head +
                  "4 alike, first: \"model.layers.2.a.weight\" is not stored.\n" + head +
                  "\"model.layers.10.b.weight\" is not stored.\n" + head + "\"norm.2\" is not stored.\n" +
                  head + "\"norm.weight\" is not stored.\n") == 0);
  CHECK(text.find("failed: 10 errors") != std::string::npos);
  const std::string all = text_report(report, {.verbose = true});
  const size_t two = all.find("layers.2.a"), ten = all.find("layers.10.a"),
               hundred = all.find("layers.100.a");
  CHECK(two < ten);
  CHECK(ten < hundred);
  CHECK(hundred != std::string::npos);
}

TEST_CASE("the text says what the baseline knew, what of it is gone, and which links were not followed") {
  LintReport report = clean_report();
  report.baseline = BaselineUse{3, {}};
  CHECK(last_line(text_report(report)) == "3 findings known by the baseline.\n");
  report.baseline->stale = {{"ST041", "a\x1b.safetensors", "x", 2}};
  CHECK(last_line(text_report(report)) ==
        "3 findings known by the baseline; 2 of it not found any more: ST041 a\\u{001B}.safetensors \"x\" "
        "(--write-baseline writes it anew).\n");
  report.inputs[0].skipped_links = {"x", "y"};
  CHECK(last_line(text_report(report)) == "not followed: 2 links out of the folder or to nothing: x, y\n");
}

TEST_CASE("files of two PATHs with the same name stay apart") {
  LintReport report;
  report.inputs = {{"x", true, "x/", {}, {}}, {"y.safetensors", false, "", {}, {}}};
  std::vector<PathFindings> paths(2);
  paths[0].findings = {sample_finding(Rule::ST060, "y.safetensors", "")};
  paths[1].findings = paths[0].findings;
  report.issues = apply_policy(paths, report.policy);
  const std::string text = text_report(report);
  CHECK(text.find("x/y.safetensors\n") == 0);
  CHECK(text.find("\n\ny.safetensors\n") != std::string::npos);
}

TEST_CASE("hostile names neither control the terminal nor begin a line") {
  const std::string text = text_report(hostile_report(), {.verbose = true});
  CHECK_FALSE(find_invalid_utf8(text).has_value());
  for (uint64_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.length;
    const bool shown = c.value == '\n' || (c.value >= 0x20 && !(c.value >= 0x7F && c.value < 0xA0));
    if (!shown || is_invisible(c.value)) FAIL("U+" << std::hex << c.value << " at " << std::dec << at);
  }
  for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
    CHECK(text.compare(at + 1, 2, "::") != 0);
    CHECK(text.compare(at + 1, 7, "<script") != 0);
  }
  CHECK(text.find("(5000 characters)") != std::string::npos);
  CHECK(text.find("\\u{FEFF}") != std::string::npos);
}

TEST_CASE("the catalogue as text") {
  const std::string list = rules_text(false);
  CHECK(std::count(list.begin(), list.end(), '\n') == static_cast<long>(all_rules().size()));
  CHECK(list.find("ST001  error    EMPTY_FILE") == 0);
  for (const RuleInfo& info : all_rules()) {
    INFO(info.id);
    const std::string text = rule_text(info.rule, false);
    CHECK(text.find(std::string(info.id) + " " + std::string(info.name) + " (") == 0);
    CHECK(text.find("{{") == std::string::npos);
    CHECK(list.find("\n" + std::string(info.id) + "  ") !=
          (info.rule == Rule::ST001 ? 0 : std::string::npos));
  }
}

}  // namespace tftf
