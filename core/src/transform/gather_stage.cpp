// The stage that puts elements of several tensors together.
#include <cstring>

#include "chain_run.h"
#include "gather.h"
#include "stage.h"

namespace tftf::transform {
namespace {

// Runs that are read in one go, with what lies between them: at most twice their bytes where they are short, more where
// all of it is little.
constexpr uint64_t kShortRun = 4096;
constexpr uint64_t kLittle = 64 << 10;
// A turned matrix is read in runs as long as the tile is high: tiles are larger, and whole matrices where they fit.
constexpr uint64_t kTurnedTile = 4 << 20;
constexpr uint64_t kTurnedRows = 16;  // of a piece
constexpr uint64_t kTurnedPiece = 1 << 16;
// Rows and columns that are turned at a time: their cache lines stay.
constexpr uint64_t kTurnRows = 32, kTurnCols = 64;

struct BlockRead {
  Extent extent{};
  uint64_t stride = 0;  // elements between runs in the buffer
};

BlockRead read_of(const GatherForm& form, const Extent& lane, const BlockRuns& runs) {
  const uint64_t size = form.element_bytes, bytes = runs.length() * size, stride = runs.stride * size;
  BlockRead read{.extent = slice(lane, runs.first * size, runs.span() * size), .stride = runs.stride};
  const bool dense = runs.outer == 1 || stride == bytes || (bytes < kShortRun && stride <= 2 * bytes) ||
                     (runs.span() * size <= kLittle && stride <= 8 * bytes);
  if (dense) return read;
  read.extent.rows = static_cast<uint32_t>(runs.outer);
  read.extent.row_bytes = bytes;
  read.extent.stride = stride;
  read.stride = runs.length();
  return read;
}

// Where a block stands in the result: element (row, col) of it at first + row * row_step + col * col_step.
struct BlockPlace {
  uint64_t first = 0, row_step = 0, col_step = 1;
};

BlockPlace place_of(const GatherForm& form, const LaneBlock& block) {
  const uint64_t k = block.lane % form.per_matrix, width = form.out_cols();
  BlockPlace place{.row_step = width};
  uint64_t row = block.row, col = block.col;
  if (form.per_matrix > 1 && form.across) {
    col = form.interleaved ? block.col * form.per_matrix + k : k * form.cols + block.col;
    if (form.interleaved) place.col_step = form.per_matrix;
  } else if (form.per_matrix > 1) {
    row = form.interleaved ? block.row * form.per_matrix + k : k * form.rows + block.row;
    if (form.interleaved) place.row_step *= form.per_matrix;
  }
  place.first = block.lane / form.per_matrix * form.matrix_elements() + row * width + col;
  return place;
}

// Elements that lie `row` and `col` apart in what is read, and in the result.
struct Steps {
  uint64_t from_row = 0, from_col = 1, to_row = 0, to_col = 1;
};

template <size_t N>
void move_elements(const std::byte* from, std::byte* to, const Steps& steps, uint64_t rows,
                   uint64_t cols) noexcept {
  for (uint64_t r0 = 0; r0 < rows; r0 += kTurnRows) {
    const uint64_t r1 = std::min(rows, r0 + kTurnRows);
    for (uint64_t c0 = 0; c0 < cols; c0 += kTurnCols) {
      const uint64_t c1 = std::min(cols, c0 + kTurnCols);
      for (uint64_t r = r0; r < r1; ++r) {
        const std::byte* in = from + to_size((r * steps.from_row + c0 * steps.from_col) * N);
        std::byte* out = to + to_size((r * steps.to_row + c0 * steps.to_col) * N);
        for (uint64_t c = c0; c < c1; ++c, in += steps.from_col * N, out += steps.to_col * N)
          std::memcpy(out, in, N);
      }
    }
  }
}

void move_rows(const GatherForm& form, const std::byte* from, std::byte* to, const Steps& steps,
               uint64_t rows, uint64_t cols) noexcept {
  const uint64_t size = form.element_bytes;
  if (steps.from_col == 1 && steps.to_col == 1) {
    for (uint64_t r = 0; r < rows; ++r)
      std::memcpy(to + to_size(r * steps.to_row * size), from + to_size(r * steps.from_row * size),
                  to_size(cols * size));
    return;
  }
  switch (size) {
    case 1:
      return move_elements<1>(from, to, steps, rows, cols);
    case 2:
      return move_elements<2>(from, to, steps, rows, cols);
    case 4:
      return move_elements<4>(from, to, steps, rows, cols);
    default:
      return move_elements<8>(from, to, steps, rows, cols);
  }
}

// Elements of a block that belong to a piece of the result. `from`: the block's first element.
void put_block(const GatherForm& form, const LaneBlock& block, const Steps& steps, const std::byte* from,
               ElementRange piece, std::byte* to) noexcept {
  const BlockPlace place = place_of(form, block);
  const uint64_t end = piece.first + piece.count, size = form.element_bytes;
  const auto put = [&](uint64_t row, uint64_t rows, uint64_t col, uint64_t cols) {
    const uint64_t at = place.first + row * place.row_step + col * place.col_step - piece.first;
    move_rows(form, from + to_size((row * steps.from_row + col * steps.from_col) * size),
              to + to_size(at * size), steps, rows, cols);
  };
  const uint64_t length = (block.cols - 1) * place.col_step + 1;
  for (uint64_t row = 0; row < block.rows;) {
    const uint64_t begin = place.first + row * place.row_step;
    if (begin >= end) break;
    if (begin + length <= piece.first) {
      ++row;
      continue;
    }
    if (begin >= piece.first && begin + length <= end) {
      const uint64_t fit = (end - begin - length) / place.row_step + 1;
      const uint64_t rows = std::min(block.rows - row, fit);
      put(row, rows, 0, block.cols);
      row += rows;
      continue;
    }
    const uint64_t first = begin >= piece.first ? 0 : ceil_div(piece.first - begin, place.col_step);
    const uint64_t last = std::min(block.cols, ceil_div(end - begin, place.col_step));
    if (first < last) put(row, 1, first, last - first);
    ++row;
  }
}

Steps steps_of(const GatherForm& form, const LaneBlock& block, uint64_t stride, uint64_t step) {
  const BlockPlace place = place_of(form, block);
  Steps steps{.to_row = place.row_step, .to_col = place.col_step};
  steps.from_row = form.turned() ? step : stride;
  steps.from_col = form.turned() ? stride : 1;
  return steps;
}

// A block's runs, row by row where it lies straight.
BlockRuns separate_runs(const GatherForm& form, const LaneBlock& block) {
  BlockRuns runs = runs_of(form, block);
  if (form.turned()) return runs;
  runs.outer = block.rows;
  runs.stride = form.row_stride;
  runs.inner = block.cols;
  return runs;
}

// Ranges of elements that a block is made of, of a lane with a way of its own.
template <class Body>
void each_range(const GatherStep::Way& way, const BlockRuns& runs, Body body) {
  const auto range = [&](uint64_t first, uint64_t count) {
    const uint64_t begin = first / way.unit * way.unit;
    const uint64_t end = std::min(way.item->units, ceil_div(first + count, way.unit) * way.unit);
    body(ElementRange{begin, end - begin});
  };
  const uint64_t first = way.base + runs.first;
  if (runs.outer == 1 || runs.stride - runs.length() < way.unit) return range(first, runs.span());
  for (uint64_t o = 0; o < runs.outer; ++o) range(first + o * runs.stride, runs.length());
}

void gather_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& io) {
  const GatherStep& step = *stage.gather;
  each_block(step.form, tile, [&](const LaneBlock& block) {
    const BlockRuns runs = runs_of(step.form, block);
    const auto lane = to_size(block.lane);
    if (step.ways.empty()) {
      io.in.push_back(read_of(step.form, item.in[lane], runs).extent);
    } else {
      each_range(step.ways[lane], runs,
                 [&](ElementRange range) { chain_io(*step.ways[lane].item, range, io); });
    }
  });
}

// What takes elements as they come out of a way.
struct WayTarget {
  const GatherForm* form = nullptr;
  LaneBlock block{};
  BlockRuns runs{};
  uint64_t base = 0;  // of the lane, in its item
  ElementRange piece{};
  std::byte* to = nullptr;
};

void take_elements(void* to, ElementRange piece, const std::byte* elements) noexcept {
  const auto& target = *static_cast<const WayTarget*>(to);
  const GatherForm& form = *target.form;
  const BlockRuns& runs = target.runs;
  const uint64_t origin = target.base + runs.first, end = piece.first + piece.count;
  const uint64_t step = runs.step, length = runs.length();
  uint64_t o = piece.first < origin + length || runs.outer == 1
                   ? 0
                   : (piece.first - origin - length) / runs.stride + 1;
  for (; o < runs.outer && origin + o * runs.stride < end; ++o) {
    const uint64_t begin = origin + o * runs.stride;
    const uint64_t t0 = piece.first <= begin ? 0 : ceil_div(piece.first - begin, step);
    const uint64_t t1 = std::min(runs.inner, ceil_div(end - begin, step));
    if (t0 >= t1) continue;
    LaneBlock part = target.block;
    if (form.turned()) {
      part.row += t0, part.rows = t1 - t0, part.col += o, part.cols = 1;
    } else {
      part.row += o, part.rows = 1, part.col += t0, part.cols = t1 - t0;
    }
    const std::byte* from = elements + to_size((begin + t0 * step - piece.first) * form.element_bytes);
    put_block(form, part, steps_of(form, part, 0, step), from, target.piece, target.to);
  }
}

uint64_t move_plain(const GatherForm& form, const TileView& view, ElementRange piece,
                    std::byte* out) noexcept {
  size_t at = 0;
  each_block(form, view.tile, [&](const LaneBlock& block) {
    const BlockRuns runs = runs_of(form, block);
    uint64_t stride = read_of(form, {}, runs).stride;
    if (!form.turned() && runs.outer == 1) stride = form.row_stride;
    put_block(form, block, steps_of(form, block, stride, runs.step), view.in[at++], piece, out);
  });
  return 0;
}

uint64_t move_ways(const GatherStep& step, const TileView& view, ElementRange piece,
                   std::byte* out) noexcept {
  size_t at = 0;
  each_block(step.form, view.tile, [&](const LaneBlock& block) {
    const GatherStep::Way& way = step.ways[to_size(block.lane)];
    WayTarget target{&step.form, block, separate_runs(step.form, block), way.base, piece, out};
    each_range(way, runs_of(step.form, block), [&](ElementRange range) {
      const size_t inputs = to_size(chain_inputs(*way.item, range));
      const Slot slot{.in = view.in.subspan(at, inputs),
                      .out = {},
                      .scratch = {view.scratch, to_size(way.scratch)},
                      .residents = view.residents};
      at += inputs;
      run_chain(*way.item, range, *view.kernels, slot, {&target, take_elements}, *view.value);
    });
  });
  return 0;
}

uint64_t run_gather(const Stage& stage, const TileView& view, ElementRange piece, const std::byte*,
                    std::byte* out) noexcept {
  const GatherStep& step = *stage.gather;
  return step.ways.empty() ? move_plain(step.form, view, piece, out) : move_ways(step, view, piece, out);
}

std::string gather_word(const Stage& stage) { return stage.gather->form.word(); }

uint64_t gather_scratch(const Stage& stage, const Item&, uint64_t) {
  uint64_t most = 0;
  for (const GatherStep::Way& way : stage.gather->ways) most = std::max(most, way.scratch);
  return ceil_div(most, kSlotAlign) * kSlotAlign;
}

// What has ways of its own is done a tile at a time.
uint64_t gather_piece(const Stage& stage) {
  const GatherStep& step = *stage.gather;
  if (!step.ways.empty()) return UINT64_MAX >> 1;
  return step.form.turned() ? std::min(kTurnedPiece, kTurnedRows * step.form.out_cols()) : 0;
}

// Whole matrices where they fit a tile, else whole rows, so that runs are long.
uint64_t gather_tile_unit(const Stage& stage) {
  const GatherStep& step = *stage.gather;
  const GatherForm& form = step.form;
  if (!form.turned()) return 1;
  const uint64_t most = kTurnedTile / form.element_bytes;
  // Ways that decode more than a row at once would do it for every tile again.
  const bool again = std::any_of(step.ways.begin(), step.ways.end(),
                                 [&](const GatherStep::Way& way) { return way.unit >= form.col_stride; });
  if (again || form.matrix_elements() <= most) return std::max<uint64_t>(1, form.matrix_elements());
  return form.out_cols() <= most ? std::max<uint64_t>(1, form.out_cols()) : 1;
}

uint64_t gather_bits(const Stage& stage) { return uint64_t{8} * stage.gather->form.element_bytes; }

uint32_t gather_stretch(const Stage& stage) {
  return stage.gather->form.turned() ? static_cast<uint32_t>(kTurnedTile / kDefaultTileBytes) : 1;
}

}  // namespace

const StageOp kGatherStage{.word = gather_word,
                           .run = run_gather,
                           .io = gather_io,
                           .scratch = gather_scratch,
                           .piece = gather_piece,
                           .decodes = true,
                           .tile_unit = gather_tile_unit,
                           .bits = gather_bits,
                           .stretch = gather_stretch};

uint64_t GatherStep::inputs(ElementRange range) const noexcept {
  uint64_t count = 0;
  each_block(form, range, [&](const LaneBlock& block) {
    if (ways.empty()) {
      ++count;
      return;
    }
    const Way& way = ways[to_size(block.lane)];
    each_range(way, runs_of(form, block), [&](ElementRange part) { count += chain_inputs(*way.item, part); });
  });
  return count;
}

Stage gather_stage(std::shared_ptr<const GatherStep> step, DType dtype) {
  Stage stage{.op = &kGatherStage, .from = dtype, .to = dtype};
  stage.gather = std::move(step);
  return stage;
}

}  // namespace tftf::transform
