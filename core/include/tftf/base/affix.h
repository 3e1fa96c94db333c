#pragma once

#include <cstddef>
#include <string_view>

namespace tftf {

// Whether `text` begins with `begin`.
constexpr bool starts_with(std::string_view text, std::string_view begin) { return text.starts_with(begin); }

// Whether `text` ends in `end`.
constexpr bool ends_with(std::string_view text, std::string_view end) { return text.ends_with(end); }

// Whether `part` occurs in `text`.
constexpr bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether `text` begins with `lower`, which has small letters only, when ASCII capitals of `text` count as small.
constexpr bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  for (std::size_t i = 0; i < lower.size(); i++) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

// ASCII only, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace tftf
