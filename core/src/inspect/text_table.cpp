#include "inspect/text_table.h"

#include <algorithm>
#include <cmath>
#include <map>

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

// `count` code points of `text` from `first` on.
std::string points_of(const std::string& text, uint64_t first, uint64_t count) {
  uint64_t at = 0, begin = 0;
  for (uint64_t i = 0; i < first + count; ++i) {
    if (i == first) begin = at;
    at += code_point_at(text, at).length;
  }
  return count == 0 ? std::string() : text.substr(to_size(begin), to_size(at - begin));
}

// Cuts the names of all rows to `width`, so that those that differ still do; false when that cannot be. Their ends are
// kept, since names of tensors differ there, and where that is not enough half of their beginnings.
bool cut_names(std::vector<std::vector<std::string>>& rows, size_t width, const std::string& mark) {
  for (const bool keep_begin : {false, true}) {
    std::vector<std::string> names;
    std::map<std::string, std::string> meanings;
    bool distinct = true;
    for (const auto& row : rows) {
      const uint64_t length = count_code_points(row[0]);
      std::string name = row[0];
      if (length > width) {
        const size_t head = keep_begin ? (width - 1) / 2 : 0, tail = width - 1 - head;
        name = points_of(row[0], 0, head) + mark + points_of(row[0], length - tail, tail);
      }
      const auto [known, fresh] = meanings.emplace(name, row[0]);
      distinct = distinct && (fresh || known->second == row[0]);
      names.push_back(std::move(name));
    }
    if (!distinct) continue;
    for (size_t r = 0; r < rows.size(); ++r) rows[r][0] = std::move(names[r]);
    return true;
  }
  return false;
}

// For screens that are too narrow for one line a row: the name, whole, on lines of its own, and what is told of it below.
void print_blocks(std::string& out, const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& widths, size_t width, const std::string& mark) {
  constexpr size_t kIndent = 2;
  const size_t room = std::max<size_t>(width, kIndent + 1) - kIndent;
  for (size_t r = 0; r < rows.size(); ++r) {
    const uint64_t length = count_code_points(rows[r][0]);
    for (uint64_t at = 0; at == 0 || at < length; at += width)
      out += points_of(rows[r][0], at, std::min<uint64_t>(width, length - at)) + "\n";
    std::string line;
    size_t used = 0;
    const auto end_line = [&] {
      line.erase(line.find_last_not_of(' ') + 1);
      if (!line.empty()) out += std::string(kIndent, ' ') + line + "\n";
      line.clear();
      used = 0;
    };
    for (size_t i = 1; i < widths.size(); ++i) {
      const size_t column = std::min(widths[i], room);
      if (used > 0 && used + column > room) end_line();
      line += padded(cut(rows[r][i], room, mark), column + 2);
      used += column + 2;
    }
    end_line();
    if (r == 0) out += std::string(width, '-') + "\n";
  }
}

}  // namespace

std::string ascii_text(std::string_view text) {
  std::string out;
  for (uint64_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view bytes = text.substr(to_size(at), to_size(point.length));
    at += point.length;
    if (bytes.size() == 1 && static_cast<unsigned char>(bytes[0]) < 0x80) {
      out += bytes;
    } else if (bytes == "…") {
      out += "...";
    } else if (bytes == "×") {
      out += 'x';
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      std::string digits;
      for (uint32_t value = point.value; value > 0; value /= 16) digits.insert(0, 1, kDigits[value % 16]);
      if (digits.size() < 4) digits.insert(0, 4 - digits.size(), '0');
      out += "\\u{" + digits + "}";
    }
  }
  return out;
}

std::string padded(std::string text, size_t width) {
  const uint64_t length = count_code_points(text);
  if (length < width) text.append(to_size(width - length), ' ');
  return text;
}

std::string cut(std::string text, size_t width, const std::string& mark) {
  const uint64_t length = count_code_points(text);
  if (width == 0 || length <= width) return text;
  auto byte_of = [&](uint64_t points) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < points; ++i) at += code_point_at(text, at).length;
    return at;
  };
  const uint64_t head = (width - 1) / 2, tail = width - 1 - head;
  return text.substr(0, to_size(byte_of(head))) + mark + text.substr(to_size(byte_of(length - tail)));
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

void TextTable::print(std::string& out, uint32_t width, bool ascii) const {
  std::vector<std::vector<std::string>> rows = rows_;
  if (ascii)
    for (auto& row : rows)
      for (std::string& cell : row) cell = ascii_text(cell);
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::min(kWidestColumn, std::max(widths[i], to_size(count_code_points(row[i]))));
  size_t others = 0;
  for (size_t i = 1; i < widths.size(); ++i) others += widths[i] + 2;
  const std::string mark = ascii ? "~" : "…";
  size_t name = width == 0 ? kLongestName : widths[0];
  if (width > 0 && widths[0] + others > width) {
    name = width > others ? width - others : 0;
    if (name < std::min(kNarrowestName, widths[0]) || !cut_names(rows, name, mark)) {
      print_blocks(out, rows, widths, width, mark);
      return;
    }
    widths[0] = name;
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      std::string cell = i == 0 && width == 0 ? cut(rows[r][i], name) : rows[r][i];
      line += i + 1 < widths.size() ? padded(std::move(cell), widths[i] + 2) : cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) out += std::string(widths[0] + others, '-') + "\n";
  }
}

}  // namespace tftf
