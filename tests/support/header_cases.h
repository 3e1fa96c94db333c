// Headers with what is expected of them: the tables of the container rules' tests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "test_files.h"

namespace tftf::test {

// One expected finding. What is not named is not compared.
struct ExpectedFinding {
  std::string_view rule;
  std::optional<std::string> subject{};
  std::map<std::string, std::string> values{};  // as text, shapes as [2,3]
  std::optional<uint64_t> offset{};
  std::optional<std::string> pointer{};
};

struct HeaderCase {
  const char* title;
  std::string file;
  std::vector<std::string> rules;  // all that fire, as often as they fire
  std::vector<ExpectedFinding> findings{};
};

// Reads every file; compares; and holds every finding to its template: no value missing, none too many.
void check(const std::vector<HeaderCase>& cases);
void check_finding(const HeaderScan& scan, const ExpectedFinding& expected);

std::string value_text(const DiagnosticValue& value);
// Ids of the findings, sorted.
std::vector<std::string> rules_of(const HeaderScan& scan);

// An entry as JSON text.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets);
// A header padded to a multiple of 8, as writers do.
std::string padded(std::string text);
// A file with metadata and these entries.
std::string with_entries(const std::string& entries, uint64_t data_bytes);
// A file with these metadata and one tensor.
std::string with_metadata(const std::string& metadata);
std::string little_endian(uint64_t value);

inline const std::string kFormat = R"("__metadata__":{"format":"pt"})";
inline const std::string kScalar = entry("a", "F32", "[]", "[0,4]");

}  // namespace tftf::test
