#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tftf/base/json_reader.h"

namespace tftf::cli {
namespace {

constexpr uint32_t kUsualWidth = 80;
constexpr uint32_t kNarrowestWidth = 20;

// COLUMNS as shells export it; 0: it is not set, or no number.
uint32_t columns_variable() {
  const char* text = std::getenv("COLUMNS");
  const auto columns = text == nullptr ? std::nullopt : json_unsigned(text);
  return columns && *columns >= kNarrowestWidth && *columns <= 10'000 ? static_cast<uint32_t>(*columns) : 0;
}

}  // namespace

uint32_t terminal_width(int descriptor) {
  if (::isatty(descriptor) == 0) return 0;
  if (const uint32_t columns = columns_variable()) return columns;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowestWidth) return size.ws_col;
  return kUsualWidth;
}

uint32_t table_width() {
  if (const uint32_t columns = columns_variable()) return columns;
  const uint32_t columns = terminal_width(STDOUT_FILENO);
  return columns == 0 ? kUsualWidth : columns;
}

bool ascii_wanted() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale(value);
    for (char& c : locale)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return locale.find("utf-8") == std::string::npos && locale.find("utf8") == std::string::npos;
  }
  return true;  // the locale "C"
}

}  // namespace tftf::cli
