// UTF-8: strict validation, encoding, walking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tftf {

// Offset of the first byte that is not part of valid UTF-8 (overlong forms, surrogates and values above
// U+10FFFF are invalid), or nothing. The offset is that of the first byte of the malformed sequence.
std::optional<uint64_t> find_invalid_utf8(std::string_view text);

// Appends the encoding of a code point; surrogates get their three-byte form (base/json_reader.h, kPython).
void append_utf8(std::string& to, uint32_t code_point);

// The code point at `at` and its length in bytes. A malformed byte is its own value with length 1 and `valid`
// false.
struct CodePoint {
  uint32_t value = 0;
  uint32_t length = 1;
  bool valid = true;  // false for malformed bytes and encoded surrogates
};
CodePoint code_point_at(std::string_view text, uint64_t at);

// Number of code points; malformed bytes count one each.
uint64_t count_code_points(std::string_view text);

}  // namespace tftf
