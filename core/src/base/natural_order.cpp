#include "tftf/base/natural_order.h"
#include "tftf/base/affix.h"

#include <cstddef>

namespace tftf {
namespace {

// Cuts the digit run at `at` off, without its leading zeros.
std::string_view take_number(std::string_view text, size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = take_number(a, i), y = take_number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    ++i, ++j;
  }
  const size_t left_a = a.size() - i, left_b = b.size() - j;
  if (left_a != left_b) return left_a < left_b;
  return a < b;
}

}  // namespace tftf
