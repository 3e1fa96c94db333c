#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec_stages.h"
#include "row_stages.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf::transform {
namespace {

constexpr uint64_t kSide = 128;
constexpr float kLargestE4m3 = 448.0f;
constexpr uint32_t kNotFinite = 0x7F800000;

struct Fp8Codec {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t grid_columns = 0;
};

const Fp8Codec& fp8_of(const Stage& stage) { return *static_cast<const Fp8Codec*>(stage.codec.get()); }

std::string fp8_word(const Stage&) { return "quantize fp8-block"; }

uint64_t fp8_unit(const Stage& stage) { return fp8_of(stage).columns * kSide; }

uint64_t fp8_bits(const Stage&) { return 9; }

void fp8_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  const Fp8Codec& codec = fp8_of(stage);
  const RowRange rows = rows_of(tile, codec.columns);
  step.out.push_back(row_slice(item.out[0], rows, codec.columns));
  step.out.push_back(row_slice(item.out[1], {rows.first / kSide, ceil_div(rows.count, kSide)},
                               codec.grid_columns * sizeof(float)));
}

// A row as F32 and, per block of it, the largest magnitude so far.
uint64_t fp8_scratch(const Stage& stage, const Item& item, uint64_t) {
  const Fp8Codec& codec = fp8_of(stage);
  if (item.units == 0) return 0;
  return slot_rounded(codec.columns * sizeof(float)) + slot_rounded(codec.grid_columns * sizeof(uint32_t));
}

struct Fp8Rows {
  const Stage& stage;
  const TileView& view;
  const std::byte* in;
  uint64_t columns;
  // Row r of `in` as F32.
  const float* row(uint64_t r) const {
    const std::byte* at = in + to_size(r * columns * dtype_bits(stage.from) / 8);
    if (stage.from == DType::F32) return reinterpret_cast<const float*>(at);
    cast(*view.kernels, stage.from, DType::F32, at, view.scratch, columns);
    return reinterpret_cast<const float*>(view.scratch);
  }
};

// One block row: its scales from all its rows, then the codes row by row.
uint64_t encode_block_row(const Fp8Rows& from, uint64_t first, uint64_t count, const Fp8Codec& codec,
                          std::byte* codes, float* scales) noexcept {
  const KernelTable& kernels = *from.view.kernels;
  auto* largest =
      reinterpret_cast<uint32_t*>(from.view.scratch + to_size(slot_rounded(codec.columns * sizeof(float))));
  std::fill_n(largest, to_size(codec.grid_columns), 0u);
  const auto width = [&codec](uint64_t b) { return std::min(kSide, codec.columns - b * kSide); };
  uint64_t not_finite = 0;
  for (uint64_t r = first; r < first + count; ++r) {
    const float* row = from.row(r);
    for (uint64_t b = 0; b < codec.grid_columns; ++b) {
      const float* block = row + to_size(b * kSide);
      const uint32_t magnitude = kernels.largest_magnitude(block, width(b));
      if (magnitude >= kNotFinite) {
        for (uint64_t i = 0; i < width(b); ++i) not_finite += !std::isfinite(block[to_size(i)]);
      }
      largest[to_size(b)] = std::max(largest[to_size(b)], magnitude);
    }
  }
  if (not_finite > 0) {
    std::memset(codes, 0, to_size(count * codec.columns));
    std::fill_n(scales, to_size(codec.grid_columns), 1.0f);
    return not_finite;
  }
  for (uint64_t b = 0; b < codec.grid_columns; ++b) {
    float amax;
    std::memcpy(&amax, &largest[to_size(b)], sizeof amax);
    const float scale = amax / kLargestE4m3;
    // A scale that falls to zero divides nothing: the block counts as zeros.
    scales[to_size(b)] = scale > 0.0f ? scale : 1.0f;
  }
  for (uint64_t r = 0; r < count; ++r) {
    const float* row = from.row(first + r);
    for (uint64_t b = 0; b < codec.grid_columns; ++b) {
      kernels.quantize_e4m3(row + to_size(b * kSide), width(b), scales[to_size(b)],
                            codes + to_size(r * codec.columns + b * kSide));
    }
  }
  return 0;
}

uint64_t fp8_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                 std::byte*) noexcept {
  const Fp8Codec& codec = fp8_of(stage);
  const RowRange rows = rows_of(piece, codec.columns);
  const uint64_t skipped = (piece.first - view.tile.first) / codec.columns;
  const Fp8Rows from{stage, view, in, codec.columns};
  for (uint64_t r = 0; r < rows.count; r += kSide) {
    std::byte* codes = view.out[0] + to_size((skipped + r) * codec.columns);
    auto* scales =
        reinterpret_cast<float*>(view.out[1]) + to_size((skipped + r) / kSide * codec.grid_columns);
    view.value->n[3] += encode_block_row(from, r, std::min(kSide, rows.count - r), codec, codes, scales);
  }
  return 0;
}

constexpr StageOp kFp8Encoder{.word = fp8_word,
                              .run = fp8_run,
                              .io = fp8_io,
                              .scratch = fp8_scratch,
                              .unit = fp8_unit,
                              .encodes = true,
                              .bits = fp8_bits};

}  // namespace

Stage fp8_decoder(const Fp8Weight& weight, DType to) {
  Stage stage{.op = &kDequantFp8Stage, .from = weight.code_dtype, .to = to, .companions = {weight.scales}};
  Fp8Geometry& g = stage.geometry;
  g.kind = Fp8Geometry::Kind::kBlock;
  g.matrices = weight.matrices;
  g.rows = weight.rows;
  g.cols = weight.cols;
  g.block_rows = weight.block_rows;
  g.block_cols = weight.block_cols;
  g.row_stride = weight.grid_cols;
  g.col_stride = 1;
  g.grid_elements = weight.grid_rows * weight.grid_cols;
  // A stack whose grids line up is one tall matrix: one item instead of thousands.
  if (g.rows % g.block_rows == 0 && weight.grid_rows == g.rows / g.block_rows) {
    g.rows *= g.matrices;
    g.grid_elements *= g.matrices;
    g.matrices = 1;
  }
  stage.scale_dtype = weight.scale_dtype;
  return stage;
}

Stage fp8_encoder(uint64_t rows, uint64_t columns, DType from) {
  Stage stage{.op = &kFp8Encoder, .from = from, .to = DType::F8_E4M3};
  stage.elements = rows * columns;
  stage.codec = std::make_shared<const Fp8Codec>(Fp8Codec{rows, columns, ceil_div(columns, kSide)});
  stage.codec_key = std::to_string(columns);
  return stage;
}

}  // namespace tftf::transform
