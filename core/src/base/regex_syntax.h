// Reading a Python pattern and writing it for PCRE2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/result.h"

namespace tftf::regex {

inline constexpr bool is_ascii_digit(uint32_t c) { return c >= '0' && c <= '9'; }
inline constexpr bool is_octal_digit(uint32_t c) { return c >= '0' && c <= '7'; }
inline constexpr bool is_ascii_letter(uint32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// An ASCII identifier; other names of groups are outside the subset.
bool is_identifier(std::string_view name);
// The character of \a \b \f \n \r \t \v (\b as in classes and templates: backspace), 0 for any other letter.
uint32_t control_escape(uint32_t letter);

struct Syntax {
  std::string pattern;  // for PCRE2
  bool ignore_case = false;
  bool multi_line = false;
  bool dot_all = false;
  uint32_t groups = 0;                                  // captures
  std::vector<std::pair<std::string, uint32_t>> names;  // of captures
};

// Errors: kUsage, as Regex::compile() states.
Result<Syntax> read_syntax(std::string_view pattern);

}  // namespace tftf::regex
