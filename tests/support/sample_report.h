// A lint report made by hand, for the tests of the formats.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"
#include "tftf/lint/report.h"

namespace tftf::test {

inline Diagnostic sample_finding(Rule rule, std::string file, std::optional<std::string> subject = {},
                                 std::vector<std::pair<std::string, DiagnosticValue>> values = {}) {
  Diagnostic d;
  d.rule = rule;
  d.file = std::move(file);
  d.subject = std::move(subject);
  d.values = std::move(values);
  return d;
}

// A folder "model" with two shards, an index and a config.json: one issue of each severity, one with a line.
inline LintReport sample_report(LintPolicy policy = {}) {
  LintReport report;
  report.policy = policy;
  ReportInput input;
  input.given = "model";
  input.is_folder = true;
  input.place = "model/";
  for (const char* name : {"a.safetensors", "b.safetensors"}) {
    LintedFile file;
    file.path = name;
    file.scan.readable = file.scan.sound = true;
    file.scan.file_size = 1096;
    file.scan.header.header_length = 1000;
    file.scan.header.has_metadata = true;
    file.scan.header.metadata = {{"format", "pt"}, {"note", "x"}};
    file.scan.header.tensors = {
        {"w", DType::F32, {2, 3}, 0, 24}, {"v", DType::BF16, {8}, 24, 40}, {"s", DType::F32, {}, 40, 44}};
    input.files.push_back(std::move(file));
  }
  input.files[1].scan.readable = input.files[1].scan.sound = false;
  LintedFolder folder;
  folder.folder = ".";
  folder.shards = {"a.safetensors", "b.safetensors"};
  folder.indexes = {"model.safetensors.index.json"};
  folder.model_type = "llama";
  input.folders.push_back(std::move(folder));
  report.inputs.push_back(std::move(input));

  Diagnostics findings;
  findings.push_back(
      sample_finding(Rule::IX019, ".", "model",
                     {{"prefix", std::string("model")}, {"totals", std::vector<uint64_t>{2, 3}}}));
  findings.push_back(sample_finding(Rule::ST044, "a.safetensors"));
  findings.push_back(
      sample_finding(Rule::ST041, "b.safetensors", {},
                     {{"count", uint64_t{4}}, {"offset", uint64_t{1092}}, {"sniff", std::string()}}));
  findings.back().offset = 1092;
  findings.push_back(sample_finding(Rule::IX007, "model.safetensors.index.json"));
  findings.push_back(sample_finding(
      Rule::IX005, "model.safetensors.index.json", "w",
      {{"key", std::string("w")}, {"count", uint64_t{2}}, {"where", std::string("weight_map")}}));
  findings.back().offset = 40;
  findings.back().line = 3;
  findings.back().column = 5;
  findings.back().pointer = "/weight_map/w";
  std::vector<PathFindings> paths = {{std::move(findings), {}}};
  report.issues = apply_policy(paths, policy);
  return report;
}

// Names that try to break out of each format.
inline const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> names = {
      "w\n::error file=x::owned",
      "##[error]owned",
      "\r\n::set-output name=x::y",
      "a%0A::error::b",
      "<img src=x onerror=alert(1)>",
      "]]><failure/><!--",
      "&lt;&#10;\"'",
      std::string("nul\0byte", 8),
      "bidi \u202Egnp.exe\u2069",
      "bom\uFEFF soft\u00AD zero\u200B",
      "c1 \u0085 \u009B31m",
      "\x1b[31mred\x1b[0m\x07",
      "noncharacter \uFFFE \uFFFF \U0001FFFE",
      "surrogate \xED\xA0\x80",
      "malformed \xFF\xC0\x80 \xE2\x82",
      "emoji \U0001F600 combining e\u0301",
      "\\\"quoted\\\"",
      "",
      std::string(5000, 'n'),
  };
  return names;
}

// One issue per hostile name, as subject, as file name and as a value.
inline LintReport hostile_report() {
  LintReport report;
  ReportInput input;
  input.given = hostile_names()[0];
  input.is_folder = true;
  input.place = hostile_names()[0] + "/";
  Diagnostics findings;
  for (const std::string& name : hostile_names()) {
    const std::string file = name + ".safetensors";
    LintedFile linted;
    linted.path = file;
    linted.scan.readable = true;
    linted.scan.header.metadata = {{name, name}};
    input.files.push_back(std::move(linted));
    findings.push_back(sample_finding(Rule::ST043, file, name,
                                      {{"tensor", name},
                                       {"begin", uint64_t{0}},
                                       {"end", uint64_t{8}},
                                       {"other", name},
                                       {"obegin", uint64_t{0}},
                                       {"oend", UINT64_MAX}}));
    findings.push_back(sample_finding(Rule::ST069, file, name, {{"key", name}, {"found", name}}));
  }
  report.inputs.push_back(std::move(input));
  std::vector<PathFindings> paths = {{std::move(findings), {}}};
  report.issues = apply_policy(paths, report.policy);
  return report;
}

// A document as nlohmann-json reads it: unpaired surrogates, which Python reads and it refuses, become U+FFFD.
inline OrderedJson parsed_json(std::string text) {
  REQUIRE_FALSE(parse_json(text, JsonDialect::kPython).error.has_value());
  for (size_t at = text.find("\\ud"); at != std::string::npos; at = text.find("\\ud", at + 6)) {
    const bool unit =
        text.size() - at >= 6 && std::string_view("89abcdef").find(text[at + 3]) != std::string_view::npos;
    if (unit && (at == 0 || text[at - 1] != '\\')) text.replace(at, 6, "\\ufffd");
  }
  return OrderedJson::parse(text);
}

}  // namespace tftf::test
