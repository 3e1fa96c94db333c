#include "tftf/base/escape.h"
#include "tftf/command/command_line.h"

namespace tftf {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  if (escape_text(word) == word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }
  // Byte by byte, so that nothing of it reaches a terminal: bash, zsh and POSIX of 2024 read it.
  constexpr char kDigits[] = "01234567";
  std::string text = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += '\\';
      for (const int shift : {6, 3, 0}) text += kDigits[byte >> shift & 7];
    }
  }
  return text + "'";
}

}  // namespace tftf
