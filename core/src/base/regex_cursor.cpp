#include "regex_cursor.h"

#include "regex_syntax.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf::regex {
namespace {

std::string hexadecimal(uint32_t code_point) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[code_point & 15]);
    code_point >>= 4;
  } while (code_point > 0);
  return "\\x{" + text + "}";
}

}  // namespace

std::string literal(uint32_t c) {
  if (c < 0x80 && !is_ascii_letter(c) && !is_ascii_digit(c) && c != '_') return hexadecimal(c);
  std::string text;
  append_utf8(text, c);
  return text;
}

std::string printable(uint32_t c) {
  if (c == kEnd) return "";
  std::string text;
  append_utf8(text, c);
  return escape_text(text);
}

PatternCursor::PatternCursor(std::string_view pattern) : source_(pattern) {
  for (uint64_t at = 0; at < pattern.size();) {
    const CodePoint point = code_point_at(pattern, at);
    points_.push_back(point.value);
    at += point.length;
  }
}

uint32_t PatternCursor::peek() const { return at_end() ? kEnd : points_[to_size(at_)]; }

Error PatternCursor::error(std::string_view why, uint64_t at) const {
  return Error{.code = ErrorCode::kUsage,
               .message = "The pattern " + quote_name(source_) + " is not accepted: " + std::string(why) +
                          " (at character " + std::to_string(at) + ").",
               .found = std::string(source_)};
}

bool PatternCursor::accept(uint32_t c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

std::optional<uint64_t> PatternCursor::read_count() {
  std::optional<uint64_t> value;
  while (is_ascii_digit(peek())) value = saturate(value.value_or(0) * 10 + (points_[to_size(at_++)] - '0'));
  return value;
}

std::optional<uint32_t> PatternCursor::read_hexadecimal(uint32_t count) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t c = peek();
    uint32_t digit = 0;
    if (is_ascii_digit(c)) {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
    ++at_;
  }
  return value;
}

Result<uint32_t> PatternCursor::read_character_escape(uint32_t c, uint64_t start) {
  if (c == 'x' || c == 'u' || c == 'U') {
    const std::optional<uint32_t> value = read_hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (!value) return error("incomplete escape", start);
    if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF)) return error("no such character", start);
    return *value;
  }
  if (const uint32_t control = c == 'b' ? 0 : control_escape(c)) return control;
  if (is_ascii_letter(c)) return error("bad escape \\" + std::string(1, static_cast<char>(c)), start);
  return c;
}

uint32_t PatternCursor::read_octal(uint32_t value, uint32_t more) {
  for (; more > 0 && is_octal_digit(peek()); --more) value = value * 8 + (points_[to_size(at_++)] - '0');
  return value;
}

std::optional<std::string> PatternCursor::read_name(uint32_t end) {
  std::string name;
  while (!at_end()) {
    const uint32_t c = points_[to_size(at_++)];
    if (c == end) return name;
    append_utf8(name, c);
  }
  return std::nullopt;
}

bool is_identifier(std::string_view name) {
  if (name.empty() || is_ascii_digit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return is_ascii_letter(u) || is_ascii_digit(u) || u == '_';
  });
}

uint32_t control_escape(uint32_t letter) {
  switch (letter) {
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

}  // namespace tftf::regex
