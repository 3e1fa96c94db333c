#include "tftf/base/escape.h"

#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint64_t kMaxShownCharacters = 120;

void append_escaped(std::string& to, std::string_view text, uint64_t at, const CodePoint& point) {
  const uint32_t c = point.value;
  if (point.valid && c >= 0x20 && !(c >= 0x7F && c <= 0x9F) && !is_invisible(c)) {
    to += text.substr(to_size(at), point.length);
    return;
  }
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string hex;
  for (uint32_t v = c; v != 0 || hex.size() < 4; v >>= 4) hex.insert(hex.begin(), kDigits[v & 15]);
  to += "\\u{" + hex + "}";
}

}  // namespace

bool is_invisible(uint32_t c) {
  return (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x2064) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || c == 0xAD;
}

std::string escape_text(std::string_view text) {
  std::string out;
  for (uint64_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    append_escaped(out, text, at, point);
    at += point.length;
  }
  return out;
}

std::string escape_text_cut(std::string_view text, uint64_t most) {
  uint64_t at = 0;
  for (uint64_t shown = 0; at < text.size() && shown < most; ++shown) at += code_point_at(text, at).length;
  if (at >= text.size()) return escape_text(text);
  return escape_text(text.substr(0, to_size(at))) + "… (" + std::to_string(count_code_points(text)) +
         " characters)";
}

std::string quote_name(std::string_view name) {
  std::string out = "\"";
  uint64_t shown = 0;
  uint64_t at = 0;
  while (at < name.size() && shown < kMaxShownCharacters) {
    const CodePoint point = code_point_at(name, at);
    if (point.value == '"' || point.value == '\\') out += '\\';
    append_escaped(out, name, at, point);
    at += point.length;
    ++shown;
  }
  if (at == name.size()) return out + "\"";
  return out + "…\" (" + std::to_string(count_code_points(name)) + " characters)";
}

}  // namespace tftf
