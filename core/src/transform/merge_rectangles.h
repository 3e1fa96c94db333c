// How a run of elements lies in the matrices that a merge works on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "stage.h"
#include "tftf/adapter/merge.h"

namespace tftf::transform {

// Rows [row, row + rows) of one matrix, columns [begin, end) of it; `at`: its first element, counted from the piece's
// first one, and rows lie MergeProgram::cols apart.
struct Rectangle {
  uint64_t matrix = 0, row = 0, rows = 0, begin = 0, end = 0, at = 0;
  uint64_t width() const { return end - begin; }
};

// A run of elements as rectangles: the rest of a row, whole rows, the begin of a row.
template <class Body>
void each_rectangle(const MergeProgram& program, ElementRange piece, uint64_t most_rows, Body body) {
  const uint64_t cols = program.cols, rows = program.rows;
  for (uint64_t done = 0; done < piece.count;) {
    const uint64_t at = piece.first + done, left = piece.count - done;
    Rectangle r{
        .matrix = at / cols / rows, .row = at / cols % rows, .rows = 1, .begin = at % cols, .at = done};
    r.end = std::min(cols, r.begin + left);
    if (r.begin == 0 && left >= cols) r.rows = std::min({left / cols, rows - r.row, most_rows});
    body(r);
    done += r.rows * r.width();
  }
}

// Cuts rectangles that exceed `most` elements, unless rows have to stay whole.
template <class Body>
void for_strips(const MergeProgram& program, const Rectangle& r, uint64_t most, Body body) {
  const uint64_t width = std::min(r.width(), most),
                 rows = std::max<uint64_t>(1, most / std::max<uint64_t>(width, 1));
  for (uint64_t row = 0; row < r.rows; row += rows) {
    for (uint64_t column = r.begin; column < r.end; column += width) {
      Rectangle strip = r;
      strip.row = r.row + row;
      strip.rows = std::min(rows, r.rows - row);
      strip.begin = column;
      strip.end = std::min(r.end, column + width);
      strip.at = r.at + row * program.cols + (column - r.begin);
      body(strip);
    }
  }
}

// Every NaN becomes the quiet one without payload: which one a sum gives depends on the processor.
void canonicalise_nan(DType dtype, std::byte* values, uint64_t count);

}  // namespace tftf::transform
