// The encoder of FP8 block scales.
#include "quant/fp8_block_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

constexpr uint64_t kSide = 128;
constexpr float kLargestE4m3 = 448.0f;
constexpr uint32_t kNotFinite = 0x7F800000;

struct BlockGrid {
  uint64_t columns = 0;
  uint64_t grid_columns = 0;
};

// Scratch holds a row as F32, then, per block of it, the largest magnitude so far.
struct BlockRows {
  const BlockGrid& grid;
  const EncodeTask& task;
  const std::byte* in;
  // Row r of `in` as F32.
  const float* row(uint64_t r) const {
    const std::byte* at = in + to_size(r * grid.columns * dtype_bits(task.from) / 8);
    if (task.from == DType::F32) return reinterpret_cast<const float*>(at);
    cast(task.kernels, task.from, DType::F32, at, task.scratch, grid.columns);
    return reinterpret_cast<const float*>(task.scratch);
  }
  uint32_t* largest() const {
    return reinterpret_cast<uint32_t*>(task.scratch + to_size(grid.columns * sizeof(float)));
  }
};

// One block row: its scales from all its rows, then the codes row by row.
uint64_t encode_block_row(const BlockRows& from, uint64_t first, uint64_t count, std::byte* codes,
                          float* scales) noexcept {
  const KernelTable& kernels = from.task.kernels;
  const BlockGrid& grid = from.grid;
  uint32_t* largest = from.largest();
  std::fill_n(largest, to_size(grid.grid_columns), 0u);
  const auto width = [&grid](uint64_t b) { return std::min(kSide, grid.columns - b * kSide); };
  uint64_t not_finite = 0;
  for (uint64_t r = first; r < first + count; ++r) {
    const float* row = from.row(r);
    for (uint64_t b = 0; b < grid.grid_columns; ++b) {
      const float* block = row + to_size(b * kSide);
      const uint32_t magnitude = kernels.largest_magnitude(block, width(b));
      if (magnitude >= kNotFinite) {
        for (uint64_t i = 0; i < width(b); ++i) not_finite += !std::isfinite(block[to_size(i)]);
      }
      largest[to_size(b)] = std::max(largest[to_size(b)], magnitude);
    }
  }
  if (not_finite > 0) {
    std::memset(codes, 0, to_size(count * grid.columns));
    std::fill_n(scales, to_size(grid.grid_columns), 1.0f);
    return not_finite;
  }
  for (uint64_t b = 0; b < grid.grid_columns; ++b) {
    float amax;
    std::memcpy(&amax, &largest[to_size(b)], sizeof amax);
    const float scale = amax / kLargestE4m3;
    // A scale that falls to zero divides nothing: the block counts as zeros.
    scales[to_size(b)] = scale > 0.0f ? scale : 1.0f;
  }
  for (uint64_t r = 0; r < count; ++r) {
    const float* row = from.row(first + r);
    for (uint64_t b = 0; b < grid.grid_columns; ++b) {
      kernels.quantize_e4m3(row + to_size(b * kSide), width(b), scales[to_size(b)],
                            codes + to_size(r * grid.columns + b * kSide));
    }
  }
  return 0;
}

Result<Encoded> plan_fp8_block(const EncodeRequest& request) {
  TFTF_TRY(check_encoded_unit(request, kSide));
  Encoded encoded = fp8_blocks_encoded(request.rows, request.columns, &kFp8BlockEncoder);
  encoded.parts = {{request.name, DType::F8_E4M3, {request.rows, request.columns}},
                   {request.name + "_scale_inv",
                    DType::F32,
                    {ceil_div(request.rows, kSide), ceil_div(request.columns, kSide)}}};
  return encoded;
}

// As transformers writes it; the modules that were left plain would be looked for as FP8 otherwise.
std::string fp8_block_config(const ConfigRequest& request) {
  std::string text =
      "{\"activation_scheme\": \"dynamic\", \"fmt\": \"e4m3\", \"quant_method\": \"fp8\", "
      "\"weight_block_size\": [128, 128]";
  for (size_t i = 0; i < request.plain_modules.size(); ++i) {
    text += i == 0 ? ", \"modules_to_not_convert\": [" : ", ";
    text += json_ascii_string(request.plain_modules[i]);
  }
  return text + (request.plain_modules.empty() ? "}" : "]}");
}

}  // namespace

void write_fp8_blocks(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& grid = encoded.as<BlockGrid>();
  const RowRange rows = rows_of(tile, grid.columns);
  ranges.push(rows_of_part(0, rows, grid.columns));
  ranges.push(
      rows_of_part(1, {rows.first / kSide, ceil_div(rows.count, kSide)}, grid.grid_columns * sizeof(float)));
}

uint64_t fp8_blocks_scratch(const Encoded& encoded, uint64_t) {
  const auto& grid = encoded.as<BlockGrid>();
  return grid.columns * sizeof(float) + grid.grid_columns * sizeof(uint32_t);
}

uint64_t encode_fp8_blocks(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                           const std::byte* in) noexcept {
  const auto& grid = encoded.as<BlockGrid>();
  const RowRange rows = rows_of(piece, grid.columns);
  const uint64_t skipped = (piece.first - task.tile.first) / grid.columns;
  const BlockRows from{grid, task, in};
  uint64_t lost = 0;
  for (uint64_t r = 0; r < rows.count; r += kSide) {
    std::byte* codes = task.out[0] + to_size((skipped + r) * grid.columns);
    auto* scales = reinterpret_cast<float*>(task.out[1]) + to_size((skipped + r) / kSide * grid.grid_columns);
    lost += encode_block_row(from, r, std::min(kSide, rows.count - r), codes, scales);
  }
  return lost;
}

Encoded fp8_blocks_encoded(uint64_t rows, uint64_t columns, const Encoder* encoder) {
  Encoded encoded;
  encoded.encoder = encoder;
  encoded.word = "fp8-block";
  encoded.key = std::to_string(columns);
  encoded.elements = rows * columns;
  encoded.unit = columns * kSide;
  encoded.bits = 9;
  encoded.state = std::make_shared<const BlockGrid>(BlockGrid{columns, ceil_div(columns, kSide)});
  return encoded;
}

const Encoder kFp8BlockEncoder{.check = check_no_encode_options,
                               .plan = plan_fp8_block,
                               .writes = write_fp8_blocks,
                               .encode = encode_fp8_blocks,
                               .scratch = fp8_blocks_scratch,
                               .config = fp8_block_config};

}  // namespace tftf
