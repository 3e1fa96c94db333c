// Text for people: columns, and names cut to fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tftf/base/dtype.h"

namespace tftf {

// Padded to `width` code points.
std::string padded(std::string text, size_t width);
// Cut in the middle to `width` code points: a name's end says as much as its beginning. 0: not cut.
std::string cut(std::string text, size_t width);
// "4096×1024".
std::string cross(const Shape& shape);
// Six significant digits: "-0.0123457", "1.5e-07", "NaN", "-Infinity".
std::string short_number(double value);

// Columns of text, as wide as their widest cell; the first is cut so that a row fits.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // `width`: columns of the terminal; 0: nothing is cut.
  void print(std::string& out, uint32_t width) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tftf
