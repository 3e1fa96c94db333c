// A tensor that is put together from parts of others: elements change their place and nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/plan/plan.h"
#include "tftf/quant/weight.h"

namespace tftf::transform {

struct StreamTensor;

// The result is `matrices` matrices, one behind the other. Each is made of `per_matrix` lanes of rows x cols elements, one
// below the other, or `across`: side by side; `interleaved`: their rows (or columns) in turn. Element (i, j) of a lane lies
// i * row_stride + j * col_stride elements behind the lane's first one; one of the strides is 1 where a lane lies straight.
struct GatherForm {
  uint64_t matrices = 1;
  uint64_t rows = 0, cols = 0;
  uint64_t row_stride = 0, col_stride = 1;
  uint32_t per_matrix = 1;
  uint32_t element_bytes = 1;
  bool across = false;
  bool interleaved = false;

  uint64_t lanes() const { return matrices * per_matrix; }
  uint64_t out_rows() const { return across ? rows : rows * per_matrix; }
  uint64_t out_cols() const { return across ? cols * per_matrix : cols; }
  uint64_t matrix_elements() const { return rows * cols * per_matrix; }
  uint64_t elements() const { return matrix_elements() * matrices; }
  // Elements from a lane's first to behind its last.
  uint64_t span() const {
    return rows == 0 || cols == 0 ? 0 : (rows - 1) * row_stride + (cols - 1) * col_stride + 1;
  }
  bool turned() const { return col_stride != 1; }
  // Lanes are runs, and follow each other in the result.
  bool is_run() const {
    return !turned() && (row_stride == cols || rows == 1) && !(per_matrix > 1 && (across || interleaved));
  }
  // All of it, for texts and keys.
  std::string word() const;
};

// A lane of the rows of a tensor, each all that is behind its dimension `axis`; with axis 1 of one of its matrices. Elements
// are those of the dtype, or bytes where they are smaller. The error says why not: rows that are no whole bytes, or sizes
// that are too large.
Result<GatherForm> rows_form(const Shape& shape, DType dtype, size_t axis);

// A tensor that lanes are taken of: as it is stored, or (`way`) as pipes have made it.
struct GatherSource {
  TensorRef ref{};
  std::shared_ptr<const StreamTensor> way{};
};

struct GatherLane {
  uint32_t source = 0;
  uint64_t base = 0;  // its first element
};

// Lanes in the order of matrices. The shapes of what is gathered have been checked to fit.
struct Gather {
  GatherForm form{};
  std::vector<GatherSource> sources{};
  std::vector<GatherLane> lanes{};
  bool is_plain() const {
    return std::none_of(sources.begin(), sources.end(),
                        [](const GatherSource& source) { return source.way != nullptr; });
  }
};

// What the stage of a gather works with. Plain: Item::in are the lanes, each cut to its own bytes.
struct GatherStep {
  GatherForm form{};
  // Where stored bytes are no elements yet, what makes them, for each lane: an item of its own (no outputs) and the first
  // element in it.
  struct Way {
    std::shared_ptr<const Item> item{};
    uint64_t base = 0;
    uint64_t unit = 1;     // ranges begin and end at multiples of it
    uint64_t scratch = 0;  // bytes
  };
  std::vector<Way> ways{};
  // Extents that a range of the result reads.
  uint64_t inputs(ElementRange range) const noexcept;
};

// Rows [row, row + rows), columns [col, col + cols) of a lane.
struct LaneBlock {
  uint64_t lane = 0;
  uint64_t row = 0, rows = 0, col = 0, cols = 0;
};

// How a block lies in what its lane is taken of: `outer` runs, `stride` elements apart, of elements that are `step` apart;
// `inner` of them each.
struct BlockRuns {
  uint64_t first = 0;  // element of the lane's source, counted from the lane's first
  uint64_t outer = 0, stride = 0, inner = 0, step = 1;
  uint64_t length() const { return (inner - 1) * step + 1; }  // of a run
  uint64_t span() const { return (outer - 1) * stride + length(); }
};
BlockRuns runs_of(const GatherForm& form, const LaneBlock& block);

// The blocks that a range of the result consists of, in an order that is always the same.
template <class Body>
void each_block(const GatherForm& form, ElementRange range, Body body) {
  const uint64_t height = form.out_rows(), width = form.out_cols(), lanes = form.per_matrix;
  // Of `size` rows or columns per lane, those of lane k in [begin, end).
  const auto cut = [&](uint64_t k, uint64_t size, uint64_t begin, uint64_t end) {
    if (form.interleaved && lanes > 1)
      return std::pair((begin + lanes - 1 - k) / lanes, (end + lanes - 1 - k) / lanes);
    return std::pair(std::clamp(begin, k * size, (k + 1) * size) - k * size,
                     std::clamp(end, k * size, (k + 1) * size) - k * size);
  };
  for (uint64_t done = 0; done < range.count;) {
    const uint64_t at = range.first + done, left = range.count - done;
    const uint64_t matrix = at / width / height, row = at / width % height, begin = at % width;
    const uint64_t end = std::min(width, begin + left);
    const uint64_t rows = begin == 0 && left >= width ? std::min(left / width, height - row) : 1;
    for (uint64_t k = 0; k < lanes; ++k) {
      LaneBlock block{matrix * lanes + k, row, rows, begin, end - begin};
      if (lanes > 1 && form.across) {
        const auto [first, last] = cut(k, form.cols, begin, end);
        block.col = first;
        block.cols = last - first;
      } else if (lanes > 1) {
        const auto [first, last] = cut(k, form.rows, row, row + rows);
        block.row = first;
        block.rows = last - first;
      }
      if (block.rows != 0 && block.cols != 0) body(block);
    }
    done += rows * (end - begin);
  }
}

}  // namespace tftf::transform
