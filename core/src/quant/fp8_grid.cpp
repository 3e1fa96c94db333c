// Reads and decodes FP8 codes under a grid of scales, of one matrix or of a stack of them.
#include "quant/fp8_grid.h"

#include <algorithm>

#include "quant/scale_shape.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

using Kind = Fp8Geometry::Kind;

const Fp8Grid& grid_of(const Weight& weight) { return weight.as<Fp8Grid>(); }

uint64_t matrix_elements(const Fp8Geometry& g) { return g.rows * g.cols; }

// The rectangle of a scale grid that a run of elements of one matrix needs: grid rows [row, row + rows), columns [col,
// col + cols). Inside one row of the matrix only the columns it touches, else all of them.
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

// The matrices that a run touches: whole grids are read where there is more than one.
struct Matrices {
  uint64_t first = 0, count = 1;
};
Matrices matrices_of(const Fp8Geometry& g, ElementRange run) {
  if (g.matrices == 1) return {};
  const uint64_t first = run.first / matrix_elements(g);
  return {first, (run.first + run.count - 1) / matrix_elements(g) - first + 1};
}

ElementRange within(const Fp8Geometry& g, uint64_t matrix, ElementRange run) {
  return {run.first - matrix * matrix_elements(g), run.count};
}

void read_fp8(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const Fp8Grid& grid = grid_of(weight);
  const Fp8Geometry& g = grid.geometry;
  const uint64_t size = dtype_bits(grid.scale_dtype) / 8;
  ranges.push({.part = 0, .offset = tile.first, .row_bytes = tile.count});
  const Matrices matrices = matrices_of(g, tile);
  const uint64_t base = matrices.first * g.grid_elements;
  if (matrices.count > 1) {
    ranges.push({.part = 1, .offset = base * size, .row_bytes = matrices.count * g.grid_elements * size});
    return;
  }
  const GridPart part = grid_part(g, within(g, matrices.first, tile));
  PartRange scales{.part = 1, .offset = (base + part.row * g.row_stride + part.col * g.col_stride) * size};
  const bool along_rows = g.col_stride == 1 || g.col_stride == 0;
  if ((part.rows == 1 || part.cols == 1 || g.row_stride == part.cols) && (along_rows || part.cols == 1)) {
    // One run: a single row or column of the grid's storage, or whole stored rows.
    scales.row_bytes = part.rows * part.cols * size;
  } else if (g.kind != Kind::kTransposed) {
    // A grid with more columns than the weight needs: the first ones of each row.
    scales.rows = static_cast<uint32_t>(part.rows);
    scales.row_bytes = part.cols * size;
    scales.stride = g.row_stride * size;
  } else {
    // Transposed storage: a stored row per grid column.
    scales.rows = static_cast<uint32_t>(part.cols);
    scales.row_bytes = part.rows * size;
    scales.stride = g.col_stride * size;
  }
  ranges.push(scales);
}

uint64_t most_scales(const Fp8Geometry& g, uint64_t units) {
  if (g.matrices > 1) return std::min(g.matrices, (units - 1) / matrix_elements(g) + 2) * g.grid_elements;
  const uint64_t matrix_rows = std::min(g.rows, (units - 1) / g.cols + 2);
  const uint64_t rows =
      g.row_stride == 0 ? 1 : std::min(ceil_div(g.rows, g.block_rows), (matrix_rows - 1) / g.block_rows + 2);
  const uint64_t cols = g.col_stride == 0 ? 1 : ceil_div(g.cols, g.block_cols);
  return rows * cols;
}

uint64_t fp8_scratch(const Weight& weight, uint64_t units) {
  if (weight.elements == 0) return 0;
  return most_scales(grid_of(weight).geometry, std::min(units, weight.elements)) * sizeof(float);
}

bool widen_scales(const Weight& weight, const DecodeTask& task) noexcept {
  const Fp8Grid& grid = grid_of(weight);
  const Fp8Geometry& g = grid.geometry;
  const Matrices matrices = matrices_of(g, task.tile);
  uint64_t count = matrices.count * g.grid_elements;
  if (matrices.count == 1) {
    const GridPart part = grid_part(g, within(g, matrices.first, task.tile));
    count = part.rows * part.cols;
  }
  cast(task.kernels, grid.scale_dtype, DType::F32, task.bytes[1], task.scratch, count);
  return true;
}

// A run of one matrix, whose scales in hand are `part` of its grid or (whole) all of it.
uint64_t decode_run(const Fp8Grid& grid, const DecodeTask& task, const float* scales, bool whole,
                    const GridPart& part, ElementRange run, const std::byte* codes, DType to,
                    std::byte* out) noexcept {
  const Fp8Geometry& g = grid.geometry;
  ScaledRun scaled{};
  scaled.from = grid.code_dtype;
  scaled.to = to;
  scaled.divide = grid.divide;
  scaled.cols = g.cols;
  scaled.block_rows = g.block_rows;
  scaled.block_cols = g.block_cols;
  scaled.scales = scales;
  scaled.first = run.first;
  scaled.count = run.count;
  if (whole) {
    scaled.row_stride = g.row_stride;
    scaled.col_stride = g.col_stride;
    return task.kernels.dequantize_f8(scaled, codes, out);
  }
  const bool transposed = g.kind == Kind::kTransposed;
  scaled.row_stride = g.row_stride == 0 ? 0 : transposed ? 1 : part.cols;
  scaled.col_stride = g.col_stride == 0 ? 0 : transposed ? part.rows : 1;
  // The grid in hand begins at part.row, part.col.
  const uint64_t skipped_rows = g.row_stride == 0 ? 0 : part.row * g.block_rows;
  scaled.first -= skipped_rows * g.cols;
  if (part.col > 0) {
    // Columns were left out: the tile lies in one row, which becomes row 0 of a narrower matrix.
    scaled.first = run.first % g.cols - part.col * g.block_cols;
    scaled.cols = scaled.first + run.count;
  }
  return task.kernels.dequantize_f8(scaled, codes, out);
}

uint64_t decode_fp8(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                    std::byte* out) noexcept {
  const Fp8Grid& grid = grid_of(weight);
  const Fp8Geometry& g = grid.geometry;
  const auto* scales = reinterpret_cast<const float*>(task.scratch);
  const std::byte* codes = task.bytes[0] + to_size(piece.first - task.tile.first);
  const Matrices matrices = matrices_of(g, task.tile);
  if (matrices.count == 1) {
    const GridPart part = grid_part(g, within(g, matrices.first, task.tile));
    return decode_run(grid, task, scales, false, part, within(g, matrices.first, piece), codes, to, out);
  }
  const uint64_t size = dtype_bits(to) / 8;
  uint64_t infinite = 0;
  for (uint64_t done = 0; done < piece.count;) {
    const uint64_t at = piece.first + done, matrix = at / matrix_elements(g);
    const ElementRange run =
        within(g, matrix, {at, std::min(piece.count - done, (matrix + 1) * matrix_elements(g) - at)});
    infinite += decode_run(grid, task, scales + to_size((matrix - matrices.first) * g.grid_elements), true,
                           {}, run, codes + to_size(done), to, out + to_size(done * size));
    done += run.count;
  }
  return infinite;
}

std::string_view kind_word(Kind kind) {
  switch (kind) {
    case Kind::kTensor:
      return "fp8-tensor";
    case Kind::kBlock:
      return "fp8-block";
    case Kind::kTransposed:
      return "fp8-block-transposed";
    case Kind::kRow:
      return "fp8-row";
    case Kind::kColumn:
      return "fp8-column";
  }
  return "fp8";
}

// Bits of scales that a tile reads per element, at most.
uint64_t scale_bits(const Fp8Grid& grid) {
  const Fp8Geometry& g = grid.geometry;
  const uint64_t bits = dtype_bits(grid.scale_dtype);
  const uint64_t covered = std::max<uint64_t>(
      1, (g.row_stride == 0 ? g.rows : g.block_rows) * (g.col_stride == 0 ? g.cols : g.block_cols));
  const uint64_t of_block = ceil_div(bits, covered);
  if (g.matrices == 1) return of_block;
  return std::max(of_block, ceil_div(g.grid_elements * bits, std::max<uint64_t>(matrix_elements(g), 1)));
}

void read_plain(const Weight&, ElementRange tile, PartRanges& ranges) {
  ranges.push({.part = 0, .offset = tile.first, .row_bytes = tile.count});
}

uint64_t decode_plain(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                      std::byte* out) noexcept {
  return cast(task.kernels, weight.as<DType>(), to, task.bytes[0] + to_size(piece.first - task.tile.first),
              out, piece.count);
}

constexpr Decoder kPlainDecoder{.reads = read_plain, .decode = decode_plain, .rounds = true};

}  // namespace

const Decoder kFp8GridDecoder{
    .reads = read_fp8, .decode = decode_fp8, .rounds = true, .scratch = fp8_scratch, .begin = widen_scales};

Fp8Geometry flattened(Fp8Geometry g) {
  if (g.matrices == 1) return g;
  if (g.kind == Kind::kTensor) {
    g.cols *= g.rows;
    g.rows = g.matrices;
    g.block_rows = 1;
    g.block_cols = std::max<uint64_t>(g.cols, 1);
    g.row_stride = 1;
  } else if (g.kind == Kind::kRow || (g.kind == Kind::kBlock && g.rows % g.block_rows == 0 &&
                                      g.grid_elements == g.rows / g.block_rows * g.row_stride)) {
    g.rows *= g.matrices;
  } else {
    return g;
  }
  g.grid_elements *= g.matrices;
  g.matrices = 1;
  return g;
}

Result<Weight> fp8_grid_weight(const Fp8Grid& given, const Shape& shape, TensorRef codes, TensorRef scales) {
  Fp8Grid grid = given;
  grid.geometry = flattened(grid.geometry);
  const Fp8Geometry& g = grid.geometry;
  const uint64_t stored_rows = g.kind == Kind::kTransposed
                                   ? g.grid_elements / std::max<uint64_t>(g.col_stride, 1)
                               : g.row_stride == 0 ? 1
                                                   : ceil_div(g.rows, g.block_rows);
  const uint64_t bits = 8 + scale_bits(grid);
  if (stored_rows > UINT32_MAX || bits > UINT32_MAX) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "has more matrices or blocks than can be addressed one by one"};
  }
  Weight weight;
  weight.decoder = &kFp8GridDecoder;
  weight.word = std::string(kind_word(g.kind)) + (grid.divide ? " divide" : "");
  weight.key = std::string(dtype_name(grid.code_dtype)) + ' ' + std::string(dtype_name(grid.scale_dtype));
  for (const uint64_t n :
       {g.matrices, g.rows, g.cols, g.block_rows, g.block_cols, g.row_stride, g.col_stride, g.grid_elements})
    weight.key += ' ' + std::to_string(n);
  weight.shape = shape;
  weight.elements = element_count(shape).value_or(0);
  weight.parts = {{"weight", codes}, {"scales", scales}};
  weight.bits = static_cast<uint32_t>(bits);
  weight.reads = 2;
  weight.state = std::make_shared<const Fp8Grid>(grid);
  return weight;
}

Weight fp8_plain_weight(const TensorInfo& codes, TensorRef tensor) {
  Weight weight;
  weight.decoder = &kPlainDecoder;
  weight.word = "fp8-unscaled";
  weight.key = dtype_name(codes.dtype);
  weight.shape = codes.shape;
  weight.elements = element_count(codes.shape).value_or(0);
  weight.parts = {{"weight", tensor}};
  weight.state = std::make_shared<const DType>(codes.dtype);
  return weight;
}

std::optional<Fp8Grid> fp8_blocks(const TensorInfo& codes, const TensorInfo& scales, Fp8Block block) {
  if (codes.shape.size() < 2 || scales.shape.size() != codes.shape.size() || !is_fp8(codes.dtype) ||
      !is_floating(scales.dtype) || !can_cast(scales.dtype, DType::F32) || block.rows == 0 || block.cols == 0)
    return std::nullopt;
  const size_t leading = codes.shape.size() - 2;
  Fp8Grid grid{.code_dtype = codes.dtype, .scale_dtype = scales.dtype};
  Fp8Geometry& g = grid.geometry;
  g.kind = Kind::kBlock;
  for (size_t i = 0; i < leading; ++i) {
    if (scales.shape[i] != codes.shape[i]) return std::nullopt;
    g.matrices *= codes.shape[i];
  }
  g.rows = codes.shape[leading];
  g.cols = codes.shape[leading + 1];
  g.block_rows = block.rows;
  g.block_cols = block.cols;
  g.row_stride = scales.shape[leading + 1];
  g.col_stride = 1;
  g.grid_elements = scales.shape[leading] * scales.shape[leading + 1];
  if (ceil_div(g.rows, g.block_rows) > scales.shape[leading] || ceil_div(g.cols, g.block_cols) > g.row_stride)
    return std::nullopt;
  return grid;
}

std::optional<Fp8Grid> fp8_named_grid(const TensorInfo& codes, const TensorInfo& scales, Fp8Block block) {
  if (block.rows == 0 || block.cols == 0 || !is_fp8(codes.dtype) || !is_fp8_scale_dtype(scales.dtype))
    return std::nullopt;
  if (const auto geometry = fp8_geometry(codes.shape, scales.shape, block))
    return Fp8Grid{*geometry, codes.dtype, scales.dtype};
  return fp8_blocks(codes, scales, block);
}

std::optional<Fp8Grid> fp8_scales(const TensorInfo& codes, const TensorInfo& scales,
                                  std::optional<Fp8Block> block) {
  if (!is_fp8(codes.dtype) || !is_floating(scales.dtype) || !can_cast(scales.dtype, DType::F32))
    return std::nullopt;
  const Shape& shape = codes.shape;
  Fp8Grid grid{.geometry = {}, .code_dtype = codes.dtype, .scale_dtype = scales.dtype};
  Fp8Geometry& g = grid.geometry;
  const uint64_t elements = element_count(shape).value_or(0);
  const uint64_t values = element_count(scales.shape).value_or(0);
  switch (scale_shape(shape, scales.shape)) {
    case ScaleShape::kTensor:
      // The elements are one long row, or one for each matrix.
      g.kind = Kind::kTensor;
      g.matrices = values;
      g.cols = values == 0 ? 0 : elements / values;
      g.block_cols = std::max<uint64_t>(g.cols, 1);
      g.shared = values == 1;
      return grid;
    case ScaleShape::kChannel:
      g.kind = Kind::kRow;
      g.rows = values;
      g.cols = values == 0 ? 0 : elements / values;
      g.block_cols = std::max<uint64_t>(g.cols, 1);
      g.row_stride = 1;
      g.grid_elements = values;
      return grid;
    case ScaleShape::kOther:
      break;
  }
  if (!block || shape.size() < 2 || scales.shape.size() < shape.size()) return std::nullopt;
  TensorInfo squeezed = scales;
  if (scales.shape.size() == shape.size() + 2) {
    // [.., grid rows, 1, grid columns, 1]
    const size_t leading = shape.size() - 2;
    if (scales.shape[leading + 1] != 1 || scales.shape[leading + 3] != 1) return std::nullopt;
    squeezed.shape.erase(squeezed.shape.begin() + static_cast<ptrdiff_t>(leading) + 3);
    squeezed.shape.erase(squeezed.shape.begin() + static_cast<ptrdiff_t>(leading) + 1);
  }
  return fp8_blocks(codes, squeezed, *block);
}

Result<Weight> open_fp8_scales(OpenContext& context, const QuantMatch& match, std::string_view role) {
  const TensorRef* scales = match.find(role);
  if (scales == nullptr)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its " + std::string(role));
  const TensorInfo &codes = context.checkpoint.info(match.weight), &values = context.checkpoint.info(*scales);
  std::optional<Fp8Block> block;
  if (match.block[0] != 0 && match.block[1] != 0) block = Fp8Block{match.block[0], match.block[1]};
  const auto grid = fp8_scales(codes, values, block);
  if (!grid) {
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "is " + std::string(dtype_name(codes.dtype)) + " " + shape_text(codes.shape) +
                            ", and its " + std::string(role) + " is " +
                            std::string(dtype_name(values.dtype)) + " " + shape_text(values.shape) +
                            ": neither one scale for all, nor one per matrix or row, nor a grid of blocks");
  }
  Result<Weight> weight = fp8_grid_weight(*grid, codes.shape, match.weight, *scales);
  if (!weight) return weight_fault(ErrorCode::kRefusedUnsupported, context, match, weight.error().message);
  return weight;
}

}  // namespace tftf
