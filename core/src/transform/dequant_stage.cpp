#include <algorithm>

#include "stage.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf::transform {
namespace {

uint64_t rounded_up(uint64_t bytes) { return ceil_div(bytes, kSlotAlign) * kSlotAlign; }

// The rectangle of a scale grid that a run of elements needs: grid rows [row, row + rows), columns [col, col +
// cols). Inside one row of the matrix only the columns it touches, else all of them.
struct GridPart {
  uint64_t row = 0, rows = 1, col = 0, cols = 1;
};

GridPart grid_part(const Fp8Geometry& g, ElementRange run) {
  GridPart part;
  const uint64_t last = run.first + run.count - 1;
  const uint64_t first_row = run.first / g.cols, last_row = last / g.cols;
  if (g.row_stride != 0) {
    part.row = first_row / g.block_rows;
    part.rows = last_row / g.block_rows - part.row + 1;
  }
  if (g.col_stride != 0) {
    part.cols = ceil_div(g.cols, g.block_cols);
    if (first_row == last_row) {
      part.col = run.first % g.cols / g.block_cols;
      part.cols = last % g.cols / g.block_cols - part.col + 1;
    }
  }
  return part;
}

uint64_t scale_bytes(const Stage& stage) { return dtype_bits(stage.scale_dtype) / 8; }

std::string word(const Stage& stage) {
  using Kind = Fp8Geometry::Kind;
  std::string text = "dequant fp8-";
  switch (stage.geometry.kind) {
    case Kind::kTensor:
      text += "tensor";
      break;
    case Kind::kBlock:
      text += "block";
      break;
    case Kind::kTransposed:
      text += "block-transposed";
      break;
    case Kind::kRow:
      text += "row";
      break;
    case Kind::kColumn:
      text += "column";
      break;
  }
  return text + (stage.divide ? " divide" : "");
}

void dequant_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  const Fp8Geometry& g = stage.geometry;
  const GridPart part = grid_part(g, tile);
  const uint64_t size = scale_bytes(stage);
  Extent extent = item.in[1];
  if (part.rows == 1 || part.cols == 1 || g.row_stride == part.cols) {
    // One run: a single row or column of the grid's storage, or whole stored rows.
    const bool along_rows = g.col_stride == 1 || g.col_stride == 0;
    if (along_rows || part.cols == 1) {
      extent.offset += (part.row * g.row_stride + part.col * g.col_stride) * size;
      extent.row_bytes = part.rows * part.cols * size;
      step.in.push_back(extent);
      return;
    }
  }
  if (g.kind != Fp8Geometry::Kind::kTransposed) {
    // A grid with more columns than the weight needs: the first ones of each row.
    extent.offset += part.row * g.row_stride * size;
    extent.rows = static_cast<uint32_t>(part.rows);
    extent.row_bytes = part.cols * size;
    extent.stride = g.row_stride * size;
    step.in.push_back(extent);
    return;
  }
  // Transposed storage: a stored row per grid column.
  extent.offset += (part.row * g.row_stride + part.col * g.col_stride) * size;
  extent.rows = static_cast<uint32_t>(part.cols);
  extent.row_bytes = part.rows * size;
  extent.stride = g.col_stride * size;
  step.in.push_back(extent);
}

uint64_t most_scales(const Fp8Geometry& g, uint64_t units) {
  const uint64_t matrix_rows = std::min(g.rows, (units - 1) / g.cols + 2);
  const uint64_t rows =
      g.row_stride == 0 ? 1 : std::min(ceil_div(g.rows, g.block_rows), (matrix_rows - 1) / g.block_rows + 2);
  const uint64_t cols = g.col_stride == 0 ? 1 : ceil_div(g.cols, g.block_cols);
  return rows * cols;
}

uint64_t dequant_scratch(const Stage& stage, const Item& item, uint64_t units) {
  return item.units == 0
             ? 0
             : rounded_up(most_scales(stage.geometry, std::min(units, item.units)) * sizeof(float));
}

uint64_t extra_bits(const Stage& stage) {
  const Fp8Geometry& g = stage.geometry;
  const uint64_t covered = std::max<uint64_t>(
      1, (g.row_stride == 0 ? g.rows : g.block_rows) * (g.col_stride == 0 ? g.cols : g.block_cols));
  return ceil_div(dtype_bits(stage.scale_dtype), covered);
}

void begin(const Stage& stage, const TileView& view) noexcept {
  const GridPart part = grid_part(stage.geometry, view.tile);
  cast(*view.kernels, stage.scale_dtype, DType::F32, view.in[0], view.scratch, part.rows * part.cols);
}

uint64_t dequant_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                     std::byte* out) noexcept {
  const Fp8Geometry& g = stage.geometry;
  const GridPart part = grid_part(g, view.tile);
  ScaledRun task{};
  task.from = stage.from;
  task.to = stage.to;
  task.divide = stage.divide;
  task.cols = g.cols;
  task.block_rows = g.block_rows;
  task.block_cols = g.block_cols;
  task.scales = reinterpret_cast<const float*>(view.scratch);
  const bool transposed = g.kind == Fp8Geometry::Kind::kTransposed;
  task.row_stride = g.row_stride == 0 ? 0 : transposed ? 1 : part.cols;
  task.col_stride = g.col_stride == 0 ? 0 : transposed ? part.rows : 1;
  // The grid in hand begins at part.row, part.col.
  const uint64_t skipped_rows = g.row_stride == 0 ? 0 : part.row * g.block_rows;
  task.first = piece.first - skipped_rows * g.cols;
  task.count = piece.count;
  if (part.col > 0) {
    // Columns were left out: the tile lies in one row, which becomes row 0 of a narrower matrix.
    const uint64_t row = piece.first / g.cols;
    const uint64_t col = piece.first - row * g.cols - part.col * g.block_cols;
    task.first = col;
    task.cols = col + piece.count;
  }
  return view.kernels->dequantize_f8(task, in, out);
}

}  // namespace

const StageOp kDequantFp8Stage{.word = word,
                               .run = dequant_run,
                               .inputs = 1,
                               .io = dequant_io,
                               .extra_bits = extra_bits,
                               .scratch = dequant_scratch,
                               .begin = begin};

}  // namespace tftf::transform
