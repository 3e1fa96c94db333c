// Decodes NVFP4.
#include "quant/nvfp4.h"

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kNvfp4Group = 16;

struct Nvfp4State {
  Nvfp4Matrix matrix;
  uint64_t code_bytes = 0;  // of a row
  uint64_t scales = 0;      // of a row, a byte each
};

void read_nvfp4(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<Nvfp4State>();
  const RowRange rows = rows_of(tile, state.matrix.columns);
  ranges.push(rows_of_part(0, rows, state.code_bytes));
  ranges.push(rows_of_part(1, rows, state.scales));
  const uint64_t first = rows.first / state.matrix.rows_per_scale;
  const uint64_t last = (rows.first + rows.count - 1) / state.matrix.rows_per_scale;
  ranges.push(rows_of_part(2, {first, last - first + 1}, sizeof(float)));
}

uint64_t decode_nvfp4(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                      std::byte* out) noexcept {
  const auto& state = weight.as<Nvfp4State>();
  const uint64_t columns = state.matrix.columns;
  const RowRange rows = rows_of(piece, columns), tile = rows_of(task.tile, columns);
  const float* const e4m3 = f8_values(DType::F8_E4M3);
  const float* const e2m1 = f4_values();
  auto* to = reinterpret_cast<float*>(out);
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const std::byte* codes = task.bytes[0] + to_size((r - tile.first) * state.code_bytes);
    const std::byte* scales = task.bytes[1] + to_size((r - tile.first) * state.scales);
    const uint64_t global_at = r / state.matrix.rows_per_scale - tile.first / state.matrix.rows_per_scale;
    const auto global = load_le<float>(task.bytes[2] + to_size(global_at * sizeof(float)));
    for (uint64_t c = 0; c < columns; c += 2) {
      const float scale = e4m3[static_cast<uint8_t>(scales[to_size(c / kNvfp4Group)])];
      const auto pair = static_cast<uint32_t>(codes[to_size(c / 2)]);
      const float low = e2m1[pair & 15] * scale, high = e2m1[pair >> 4] * scale;
      *to++ = low * global;
      *to++ = high * global;
    }
  }
  return 0;
}

constexpr Decoder kNvfp4Decoder{.reads = read_nvfp4, .decode = decode_nvfp4};

}  // namespace

Weight nvfp4_weight(const Nvfp4Matrix& matrix, const Shape& shape, TensorRef codes, TensorRef block_scales,
                    TensorRef global_scales) {
  Weight weight;
  weight.decoder = &kNvfp4Decoder;
  weight.word = "modelopt-nvfp4";
  weight.key = std::to_string(matrix.columns) + ' ' + std::to_string(matrix.rows_per_scale);
  weight.shape = shape;
  weight.elements = matrix.rows * matrix.columns;
  weight.parts = {{"weight", codes}, {"weight_scale", block_scales}, {"weight_scale_2", global_scales}};
  weight.unit = matrix.columns;
  weight.bits = 5;
  weight.reads = 3;
  weight.state = std::make_shared<const Nvfp4State>(
      Nvfp4State{matrix, matrix.columns / 2, ceil_div(matrix.columns, kNvfp4Group)});
  return weight;
}

}  // namespace tftf
