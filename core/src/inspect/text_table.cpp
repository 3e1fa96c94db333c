#include "inspect/text_table.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr size_t kNarrowestName = 20;
constexpr size_t kShortDigits = 6;
// Without a terminal names are whole, but one that is longer than any real one does not widen all rows.
constexpr size_t kWidestColumn = 200;
constexpr size_t kLongestName = 1000;

}  // namespace

std::string padded(std::string text, size_t width) {
  const uint64_t length = count_code_points(text);
  if (length < width) text.append(to_size(width - length), ' ');
  return text;
}

std::string cut(std::string text, size_t width) {
  const uint64_t length = count_code_points(text);
  if (width == 0 || length <= width) return text;
  auto byte_of = [&](uint64_t points) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < points; ++i) at += code_point_at(text, at).length;
    return at;
  };
  const uint64_t head = (width - 1) / 2, tail = width - 1 - head;
  return text.substr(0, to_size(byte_of(head))) + "…" + text.substr(to_size(byte_of(length - tail)));
}

std::string cross(const Shape& shape) {
  std::string out;
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? "×" : "") + std::to_string(shape[i]);
  return out;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  // The digits of the shortest decimal form, cut and rounded here: no host's printf has a say.
  const std::string shortest = OrderedJson(value).dump();
  std::string digits;
  bool minus = false, point = false, started = false;
  int64_t exponent = 0;  // of the first digit
  for (size_t i = 0; i < shortest.size(); ++i) {
    const char c = shortest[i];
    if (c == '-') {
      minus = true;
    } else if (c == '.') {
      point = true;
    } else if (c == 'e') {
      exponent += std::stoll(shortest.substr(i + 1));
      break;
    } else {
      if (!started && c == '0') {
        if (point) --exponent;
        continue;
      }
      if (!started && point) --exponent;
      if (started && !point) ++exponent;
      started = true;
      digits += c;
    }
  }
  if (digits.empty()) return minus ? "-0" : "0";
  if (digits.size() > kShortDigits) {
    const bool up = digits[kShortDigits] >= '5';
    digits.resize(kShortDigits);
    for (size_t i = kShortDigits; up && i-- > 0;) {
      if (digits[i] != '9') {
        ++digits[i];
        break;
      }
      digits[i] = '0';
      if (i == 0) {
        digits.insert(0, "1");
        ++exponent;
      }
    }
  }
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  std::string out = minus ? "-" : "";
  if (exponent < -4 || exponent > 8) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(exponent < 0 ? -exponent : exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent + 1);
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0');
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void TextTable::print(std::string& out, uint32_t width) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::min(kWidestColumn, std::max(widths[i], to_size(count_code_points(row[i]))));
  size_t total = 0;
  for (size_t one : widths) total += one + 2;
  size_t name = widths[0];
  if (width > 0 && total > width)
    name = std::max(kNarrowestName, name - std::min<size_t>(name, total - width));
  widths[0] = std::min(widths[0], name);
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      std::string cell = i == 0 ? cut(rows_[r][i], width > 0 ? widths[0] : kLongestName) : rows_[r][i];
      line += i + 1 < widths.size() ? padded(std::move(cell), widths[i] + 2) : cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r > 0) continue;
    size_t rule = 0;
    for (size_t one : widths) rule += one + 2;
    out += std::string(rule - 2, '-') + "\n";
  }
}

}  // namespace tftf
