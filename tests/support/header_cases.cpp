#include "header_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace tftf::test {
namespace {

std::vector<std::string> sorted(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

std::string value_text(const DiagnosticValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  if (const auto* shape = std::get_if<Shape>(&value)) return shape_text(*shape);
  return "(missing)";
}

std::vector<std::string> rules_of(const HeaderScan& scan) {
  std::vector<std::string> ids;
  for (const Diagnostic& finding : scan.findings) ids.emplace_back(rule_info(finding.rule).id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

void check_finding(const HeaderScan& scan, const ExpectedFinding& expected) {
  INFO(expected.rule << " " << expected.subject.value_or("(null)"));
  const auto matches = [&](const Diagnostic& finding) {
    if (rule_info(finding.rule).id != expected.rule || finding.subject != expected.subject) return false;
    if (expected.offset && finding.offset != expected.offset) return false;
    if (expected.pointer && finding.pointer != *expected.pointer) return false;
    for (const auto& [key, text] : expected.values) {
      const auto found = std::find_if(finding.values.begin(), finding.values.end(),
                                      [&, name = key](const auto& value) { return value.first == name; });
      if (found == finding.values.end() || value_text(found->second) != text) return false;
    }
    return true;
  };
  if (std::any_of(scan.findings.begin(), scan.findings.end(), matches)) {
    SUCCEED();
    return;
  }
  std::string found;
  for (const Diagnostic& finding : scan.findings) {
    if (found.size() > 4000) break;
    found += "\n  " + std::string(rule_info(finding.rule).id) + " " + finding.subject.value_or("(null)") +
             " at " + std::to_string(finding.offset.value_or(0)) + " " + finding.pointer;
    for (const auto& [key, value] : finding.values) found += " " + key + "=" + value_text(value);
  }
  FAIL("not among the findings:" << found);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

std::string padded(std::string text) {
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}
std::string with_entries(const std::string& entries, uint64_t data_bytes) {
  return safetensors_file(padded("{" + kFormat + (entries.empty() ? "" : ",") + entries + "}"), data_bytes);
}
std::string with_metadata(const std::string& metadata) {
  return safetensors_file(
      padded("{\"__metadata__\":" + metadata + "," + entry("a", "F32", "[]", "[0,4]") + "}"), 4);
}
std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  store_le(reinterpret_cast<std::byte*>(bytes.data()), value);
  return bytes;
}

void check(const std::vector<HeaderCase>& cases) {
  for (const HeaderCase& one : cases) {
    INFO(one.title);
    const HeaderScan scan = scan_file("m.safetensors", one.file);
    CHECK(rules_of(scan) == sorted(one.rules));
    for (const ExpectedFinding& expected : one.findings) check_finding(scan, expected);
    bool error = false;
    for (const Diagnostic& finding : scan.findings) {
      CHECK(finding.file == "m.safetensors");
      error = error || rule_info(finding.rule).severity == Severity::kError;
      // Every value of the template is there: message() would say "missing" for what is not.
      const std::string_view text = rule_info(finding.rule).message;
      for (const auto& [key, value] : finding.values)
        if (key != "tensor") CHECK(text.find("{" + key + "}") != std::string_view::npos);
      const bool empty_value = message(finding).find("missing") != std::string::npos;
      CHECK((!empty_value || finding.rule == Rule::ST003 || finding.rule == Rule::ST049 ||
             finding.rule == Rule::ST040 || finding.rule == Rule::ST052));
    }
    CHECK(scan.sound == (scan.readable && !error));
    if (!scan.readable) CHECK(error);
  }
}

}  // namespace tftf::test
