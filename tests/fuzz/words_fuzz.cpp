// Words of command lines: globs against a matcher that follows their definition, sizes, and the natural order of names.
// Format: one byte kind, then up to three words, apart by NUL.
#include <string>
#include <string_view>

#include "input.h"
#include "tftf/base/glob.h"
#include "tftf/base/natural_order.h"
#include "tftf/base/size_text.h"

using namespace tftf;
using tftf::fuzz::require;

namespace {

std::string_view next(std::string_view& rest) {
  const size_t end = rest.find('\0');
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

// `*` and `?` alone, for ASCII.
bool plain_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return plain_match(pattern.substr(1), text) || (!text.empty() && plain_match(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         plain_match(pattern.substr(1), text.substr(1));
}

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80 || c == '[') return false;
  return true;
}

void check_glob(std::string_view pattern, std::string_view text) {
  const Glob glob(pattern);
  require(glob.pattern() == pattern);
  const bool matches = glob.matches(text);
  if (pattern.size() <= 12 && text.size() <= 12 && is_plain(pattern) && is_plain(text))
    require(matches == plain_match(pattern, text));
  if (matches) require(Glob("*" + std::string(pattern)).matches(text));
  require(glob_selects({}, {}, text) && !glob_selects({}, {Glob("*")}, text));
  require(glob_selects({Glob(pattern)}, {}, text) == matches);
}

void check_size(std::string_view text) {
  const auto size = parse_size(text);
  if (!size.ok()) return require(!size.error().message.empty());
  require(!size_text(*size).empty());
  const auto again = parse_size(std::to_string(*size));
  require(again.ok() && *again == *size);
  std::string digits;
  for (const char c : grouped_digits(*size))
    if (c != ',') digits += c;
  require(digits == std::to_string(*size));
}

void check_order(std::string_view a, std::string_view b, std::string_view c) {
  require(!natural_less(a, a));
  require(!(natural_less(a, b) && natural_less(b, a)));
  if (a != b) require(natural_less(a, b) || natural_less(b, a));
  if (natural_less(a, b) && natural_less(b, c)) require(natural_less(a, c));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1024) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view first = next(rest), second = next(rest);
  switch (data[0] % 3) {
    case 0:
      check_glob(first, second);
      break;
    case 1:
      check_size(first);
      break;
    default:
      check_order(first, second, rest);
  }
  return 0;
}
