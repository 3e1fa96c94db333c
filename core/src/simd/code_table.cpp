#include "simd/code_table.h"

#include "simd/convert.h"
#include "tftf/simd/floats.h"

namespace tftf::simd {
namespace {

// A rectangle of the run: rows of `length` elements, the first at `at` in the run, `step` elements apart, one
// scale.
struct Rectangle {
  uint64_t at, step, rows, length;
  float scale;
};

// Making the values costs about as much as this many elements by the scalar kernel.
constexpr uint64_t kWorthwhile = 512;

uint64_t convert_slowly(const ScaledRun& run, const Rectangle& part, const std::byte* codes, std::byte* out,
                        uint64_t out_bytes) {
  ScaledRun stretch = run;
  stretch.first = 0;
  stretch.count = stretch.cols = stretch.block_cols = part.length;
  stretch.scales = &part.scale;
  uint64_t overflowed = 0;
  for (uint64_t row = 0; row < part.rows; ++row) {
    const uint64_t at = part.at + row * part.step;
    overflowed += scalar::dequantize_f8(stretch, codes + at, out + out_bytes * at);
  }
  return overflowed;
}

template <class To>
uint64_t convert(const ScaledRun& run, const Rectangle& part, const std::byte* codes, std::byte* out) {
  using Word = std::conditional_t<To::kBytes == 2, uint16_t, uint32_t>;
  if (part.rows * part.length < kWorthwhile) return convert_slowly(run, part, codes, out, To::kBytes);
  const float* values = f8_values(run.from);
  Word finished[256];
  for (size_t code = 0; code < 256; ++code) {
    const float w = values[code];
    const float y = canonical(run.divide ? w / part.scale : w * part.scale);
    std::byte bytes[4];
    const float stored = To::store(bytes, y);
    // Which elements overflow has to be counted: not here.
    if (is_infinite(stored) && is_finite(w)) return convert_slowly(run, part, codes, out, To::kBytes);
    finished[code] = load_le<Word>(bytes);
  }
  const auto step = static_cast<size_t>(part.step), length = static_cast<size_t>(part.length);
  for (size_t row = 0; row < part.rows; ++row) {
    const size_t at = static_cast<size_t>(part.at) + row * step;
    const std::byte* from = codes + at;
    std::byte* to = out + To::kBytes * at;
    for (size_t i = 0; i < length; ++i)
      store_le(to + To::kBytes * i, finished[std::to_integer<uint8_t>(from[i])]);
  }
  return 0;
}

uint64_t smaller_code(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Rows row..row + rows of the matrix, columns begin..end, the first element at `at` in the run: block by
// block.
template <class To>
uint64_t convert_rows(const ScaledRun& run, uint64_t row, uint64_t rows, uint64_t begin, uint64_t end,
                      uint64_t at, const std::byte* codes, std::byte* out) {
  uint64_t overflowed = 0;
  for (uint64_t done = 0; done < rows;) {
    const uint64_t height = smaller_code(rows - done, run.block_rows - (row + done) % run.block_rows);
    const float* scales = run.scales + ((row + done) / run.block_rows) * run.row_stride;
    for (uint64_t column = begin; column < end;) {
      const uint64_t width = smaller_code(end - column, run.block_cols - column % run.block_cols);
      const Rectangle part{at + done * run.cols + (column - begin), run.cols, height, width,
                           scales[(column / run.block_cols) * run.col_stride]};
      overflowed += convert<To>(run, part, codes, out);
      column += width;
    }
    done += height;
  }
  return overflowed;
}

}  // namespace

uint64_t code_table::dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept {
  if (run.count == 0) return 0;
  return with_float(run.to, [&](auto to) {
    using To = decltype(to);
    // A part of a row, whole rows, a part of a row.
    uint64_t row = run.first / run.cols, done = 0, overflowed = 0;
    const uint64_t column = run.first % run.cols;
    if (column != 0) {
      const uint64_t length = smaller_code(run.count, run.cols - column);
      overflowed += convert_rows<To>(run, row, 1, column, column + length, 0, codes, out);
      done = length;
      ++row;
    }
    const uint64_t rows = (run.count - done) / run.cols;
    if (rows > 0) overflowed += convert_rows<To>(run, row, rows, 0, run.cols, done, codes, out);
    done += rows * run.cols;
    if (done < run.count)
      overflowed += convert_rows<To>(run, row + rows, 1, 0, run.count - done, done, codes, out);
    return overflowed;
  });
}

}  // namespace tftf::simd
