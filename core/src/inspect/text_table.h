// Text for people: columns, and names cut to fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/dtype.h"

namespace tftf {

// Padded to `width` code points.
std::string padded(std::string text, size_t width);
// Cut in the middle to `width` code points: a name's end says as much as its beginning. 0: not cut.
std::string cut(std::string text, size_t width, const std::string& mark = "…");
// "4096×1024".
std::string cross(const Shape& shape);
// Six significant digits: "-0.0123457", "1.5e-07", "NaN", "-Infinity".
std::string short_number(double value);

// With nothing but ASCII: "..." for an ellipsis, "x" for a cross, "\u{00E9}" for a letter of a name.
std::string ascii_text(std::string_view text);

// Columns of text, as wide as their widest cell. The first, of names, is cut so that a row fits, but never so that two
// names look the same; where that is not enough a row is printed in several lines.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // `width`: no line is longer; 0: nothing is cut.
  void print(std::string& out, uint32_t width, bool ascii = false) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tftf
