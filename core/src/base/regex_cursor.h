// The characters of a Python pattern, and the escapes that stand for one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/result.h"

namespace tftf::regex {

inline constexpr uint64_t kUnbounded = 1u << 31;  // widths and counts saturate here
inline constexpr uint32_t kEnd = 0xFFFFFFFFu;     // no character
inline uint64_t saturate(uint64_t value) { return std::min(value, kUnbounded); }

// A literal character for PCRE2, with no meaning of its own inside or outside a class.
std::string literal(uint32_t c);
// A character for a message; nothing for kEnd.
std::string printable(uint32_t c);

// A pattern and a place in it, in code points. `pattern` must outlive it.
class PatternCursor {
 public:
  explicit PatternCursor(std::string_view pattern);

  // kUsage, naming the pattern and the character.
  Error error(std::string_view why, uint64_t at) const;
  bool at_end() const { return at_ >= points_.size(); }
  uint32_t peek() const;
  bool accept(uint32_t c);

  // A number of decimal digits; saturates.
  std::optional<uint64_t> read_count();
  // Exactly `count` hexadecimal digits.
  std::optional<uint32_t> read_hexadecimal(uint32_t count);
  // `value` and up to `more` octal digits behind it.
  uint32_t read_octal(uint32_t value, uint32_t more);
  // The character that \x \u \U, a control escape or an escaped non-letter stands for; `c` is behind the backslash and
  // already read. Octal digits are the caller's.
  Result<uint32_t> read_character_escape(uint32_t c, uint64_t start);
  // What stands before `end`, which is read too; nothing when there is no `end`.
  std::optional<std::string> read_name(uint32_t end);

 protected:
  std::string_view source_;
  std::vector<uint32_t> points_;
  uint64_t at_ = 0;
};

}  // namespace tftf::regex
