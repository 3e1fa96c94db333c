#include "tftf/base/json_reader.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
class Reader {
 public:
  Reader(std::string_view text, JsonDialect dialect, JsonHandler& handler)
      : text_(text), dialect_(dialect), handler_(handler) {}

  // Iterative: the nesting is a vector of brackets, so hostile depth cannot exhaust the stack.
  bool read() {
    skip_space();
    if (!read_value()) return false;
    while (!open_.empty()) {
      skip_space();
      if (open_.back() == '{' ? !next_member() : !next_element()) return false;
    }
    return true;
  }

  uint64_t position() const { return at_; }
  JsonError error() { return std::move(error_); }

 private:
  bool fail(uint64_t at, std::string detail) {
    error_ = {JsonError::Kind::kSyntax, at, std::move(detail)};
    return false;
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return text_[to_size(at_)]; }
  void skip_space() {
    while (!at_end() && is_space(peek())) ++at_;
  }

  bool read_value() {
    if (at_end()) return fail(at_, "the text ends where a value is expected");
    switch (peek()) {
      case '{':
        return open('{');
      case '[':
        return open('[');
      case '"': {
        const uint64_t start = at_;
        if (!read_string()) return false;
        handler_.on_string(decoded_, start);
        return true;
      }
      case 't':
        return word("true", [&](uint64_t at) { handler_.on_boolean(true, at); });
      case 'f':
        return word("false", [&](uint64_t at) { handler_.on_boolean(false, at); });
      case 'n':
        return word("null", [&](uint64_t at) { handler_.on_null(at); });
      case 'N':
        if (dialect_ == JsonDialect::kPython)
          return word("NaN", [&](uint64_t at) { handler_.on_number("NaN", at); });
        break;
      case 'I':
        if (dialect_ == JsonDialect::kPython)
          return word("Infinity", [&](uint64_t at) { handler_.on_number("Infinity", at); });
        break;
      default:
        if (peek() == '-' || is_digit(peek())) return read_number();
    }
    return fail(at_, "a value cannot begin with this character");
  }

  template <class Emit>
  bool word(std::string_view expected, Emit emit) {
    if (text_.substr(to_size(at_), expected.size()) != expected)
      return fail(at_, "a value cannot begin with this character");
    emit(at_);
    at_ += expected.size();
    return true;
  }

  bool open(char bracket) {
    if (open_.size() >= kMaxJsonDepth) {
      error_ = {JsonError::Kind::kDepth, at_, "nesting is too deep"};
      return false;
    }
    bracket == '{' ? handler_.on_start_object(at_) : handler_.on_start_array(at_);
    open_.push_back(bracket);
    first_ = true;
    ++at_;
    return true;
  }

  void close() {
    open_.back() == '{' ? handler_.on_end_object(at_) : handler_.on_end_array(at_);
    open_.pop_back();
    first_ = false;
    ++at_;
  }

  bool next_member() {
    if (at_end()) return fail(at_, "the text ends inside an object");
    if (peek() == '}' && first_) return close(), true;
    if (!first_) {
      if (peek() == '}') return close(), true;
      if (peek() != ',') return fail(at_, "',' or '}' is expected");
      ++at_;
      skip_space();
      if (at_end()) return fail(at_, "the text ends inside an object");
    }
    if (peek() != '"') return fail(at_, "a key in double quotes is expected");
    const uint64_t start = at_;
    if (!read_string()) return false;
    handler_.on_key(decoded_, start);
    skip_space();
    if (at_end() || peek() != ':') return fail(at_, "':' is expected after a key");
    ++at_;
    skip_space();
    first_ = false;
    return read_value();
  }

  bool next_element() {
    if (at_end()) return fail(at_, "the text ends inside an array");
    if (peek() == ']' && first_) return close(), true;
    if (!first_) {
      if (peek() == ']') return close(), true;
      if (peek() != ',') return fail(at_, "',' or ']' is expected");
      ++at_;
      skip_space();
    }
    first_ = false;
    return read_value();
  }

  bool read_number() {
    const uint64_t start = at_;
    if (peek() == '-') {
      ++at_;
      if (dialect_ == JsonDialect::kPython && text_.substr(to_size(at_), 8) == "Infinity") {
        at_ += 8;
        handler_.on_number("-Infinity", start);
        return true;
      }
    }
    if (at_end() || !is_digit(peek())) return fail(at_, "a digit is expected");
    if (peek() == '0') {
      ++at_;
      if (!at_end() && is_digit(peek())) return fail(at_, "a number has a leading zero");
    } else {
      skip_digits();
    }
    if (!at_end() && peek() == '.') {
      ++at_;
      if (at_end() || !is_digit(peek())) return fail(at_, "a digit is expected after the decimal point");
      skip_digits();
    }
    if (!at_end() && (peek() == 'e' || peek() == 'E')) {
      ++at_;
      if (!at_end() && (peek() == '+' || peek() == '-')) ++at_;
      if (at_end() || !is_digit(peek())) return fail(at_, "a digit is expected in the exponent");
      skip_digits();
    }
    handler_.on_number(text_.substr(to_size(start), to_size(at_ - start)), start);
    return true;
  }

  void skip_digits() {
    while (!at_end() && is_digit(peek())) ++at_;
  }

  // Decodes the string at the cursor into decoded_ (a view of the text when it holds no escape).
  bool read_string() {
    const uint64_t quote = at_++;
    const uint64_t start = at_;
    while (!at_end() && peek() != '"' && peek() != '\\' && static_cast<unsigned char>(peek()) >= 0x20) ++at_;
    if (!at_end() && peek() == '"') {
      decoded_ = text_.substr(to_size(start), to_size(at_ - start));
      ++at_;
      return true;
    }
    buffer_.assign(text_.substr(to_size(start), to_size(at_ - start)));
    while (!at_end()) {
      const char c = peek();
      if (c == '"') {
        ++at_;
        decoded_ = buffer_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return fail(at_, "a string holds a raw control character");
      if (c == '\\') {
        if (!read_escape()) return false;
      } else {
        buffer_ += c;
        ++at_;
      }
    }
    return fail(quote, "a string is not closed");
  }

  bool read_escape() {
    const uint64_t backslash = at_++;
    if (at_end()) return fail(backslash, "a string is not closed");
    const char c = text_[to_size(at_++)];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        buffer_ += c;
        return true;
      case 'b':
        buffer_ += '\b';
        return true;
      case 'f':
        buffer_ += '\f';
        return true;
      case 'n':
        buffer_ += '\n';
        return true;
      case 'r':
        buffer_ += '\r';
        return true;
      case 't':
        buffer_ += '\t';
        return true;
      case 'u':
        break;
      default:
        return fail(backslash, "a string holds an unknown escape");
    }
    auto unit = read_hex4();
    if (!unit) return fail(backslash, "\\u is not followed by four hexadecimal digits");
    uint32_t code = *unit;
    if (code >= 0xD800 && code <= 0xDBFF && text_.substr(to_size(at_), 2) == "\\u") {
      const uint64_t keep = at_;
      at_ += 2;
      auto low = read_hex4();
      // A malformed second escape is a syntax error of its own, found when it is read again.
      if (low && *low >= 0xDC00 && *low <= 0xDFFF)
        code = 0x10000 + ((code - 0xD800) << 10) + (*low - 0xDC00);
      else
        at_ = keep;
    }
    if (code >= 0xD800 && code <= 0xDFFF && dialect_ == JsonDialect::kStrict) {
      error_ = {JsonError::Kind::kLoneSurrogate, backslash, "an unpaired surrogate escape"};
      return false;
    }
    append_utf8(buffer_, code);
    return true;
  }

  std::optional<uint32_t> read_hex4() {
    if (text_.size() - at_ < 4) return std::nullopt;
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[to_size(at_ + static_cast<uint64_t>(i))];
      uint32_t digit = 0;
      if (is_digit(c))
        digit = static_cast<uint32_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        digit = static_cast<uint32_t>(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F')
        digit = static_cast<uint32_t>(c - 'A' + 10);
      else
        return std::nullopt;
      value = value * 16 + digit;
    }
    at_ += 4;
    return value;
  }

  std::string_view text_;
  JsonDialect dialect_;
  JsonHandler& handler_;
  uint64_t at_ = 0;
  std::vector<char> open_;
  bool first_ = true;
  std::string buffer_;
  std::string_view decoded_;
  JsonError error_;
};

}  // namespace

std::string_view json_kind_name(JsonKind kind) {
  constexpr std::string_view kNames[] = {"null", "boolean", "number", "string", "array", "object"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<JsonError> read_json(std::string_view text, JsonDialect dialect, JsonHandler& handler,
                                   uint64_t& end) {
  Reader reader(text, dialect, handler);
  const bool ok = reader.read();
  end = reader.position();
  if (ok) return std::nullopt;
  return reader.error();
}

std::optional<uint64_t> json_unsigned(std::string_view literal) {
  if (literal.empty() || !is_digit(literal.front())) return std::nullopt;
  uint64_t value = 0;
  const char* last = literal.data() + literal.size();
  auto [stop, error] = std::from_chars(literal.data(), last, value);
  if (error != std::errc() || stop != last) return std::nullopt;
  return value;
}

std::optional<uint64_t> json_whole_number(std::string_view literal) {
  if (auto plain = json_unsigned(literal)) return plain;
  // Sign, digits with the place of the decimal point, exponent: exact, since a double would lose digits past
  // 2^53.
  size_t i = 0;
  const bool negative = !literal.empty() && literal[0] == '-';
  if (negative) ++i;
  std::string digits;
  int64_t point = -1;
  for (; i < literal.size() && (is_digit(literal[i]) || literal[i] == '.'); ++i) {
    if (literal[i] == '.')
      point = static_cast<int64_t>(digits.size());
    else
      digits += literal[i];
  }
  if (digits.empty()) return std::nullopt;
  if (point < 0) point = static_cast<int64_t>(digits.size());
  const bool zero = digits.find_first_not_of('0') == std::string::npos;
  if (zero) return 0;
  if (negative) return std::nullopt;
  if (i < literal.size()) {
    if (literal[i] != 'e' && literal[i] != 'E') return std::nullopt;
    std::string_view text = literal.substr(i + 1);
    if (!text.empty() && text[0] == '+') text.remove_prefix(1);
    int64_t exponent = 0;
    auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    // The literal is shorter than a header may be, so larger exponents cannot give a whole number in range.
    if (exponent > 1'000'000'000 || exponent < -1'000'000'000) return std::nullopt;
    point += exponent;
  }
  const size_t first = digits.find_first_not_of('0');
  const size_t last = digits.find_last_not_of('0');
  if (point <= static_cast<int64_t>(last)) return std::nullopt;       // a fraction remains
  if (point - static_cast<int64_t>(first) > 20) return std::nullopt;  // more than 20 digits
  std::string whole = digits.substr(first, last - first + 1);
  whole.append(static_cast<size_t>(point) - last - 1, '0');
  return json_unsigned(whole);
}

double json_double(std::string_view literal) {
  if (literal == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (literal == "Infinity") return std::numeric_limits<double>::infinity();
  if (literal == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::strtod(std::string(literal).c_str(), nullptr);
}

}  // namespace tftf
