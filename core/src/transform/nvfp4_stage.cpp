#include "codec_stages.h"
#include "row_stages.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

namespace tftf::transform {
namespace {

constexpr uint64_t kNvfp4Group = 16;

struct Nvfp4Codec {
  Nvfp4Matrix matrix;
  uint64_t code_bytes = 0;  // of a row
  uint64_t scales = 0;      // of a row, a byte each
};

const Nvfp4Codec& nvfp4_of(const Stage& stage) { return *static_cast<const Nvfp4Codec*>(stage.codec.get()); }

std::string nvfp4_word(const Stage&) { return "dequant modelopt-nvfp4"; }

uint64_t nvfp4_unit(const Stage& stage) { return nvfp4_of(stage).matrix.columns; }

uint64_t nvfp4_bits(const Stage&) { return 5; }

void nvfp4_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  const Nvfp4Codec& codec = nvfp4_of(stage);
  const RowRange rows = rows_of(tile, codec.matrix.columns);
  step.in.push_back(row_slice(item.in[0], rows, codec.code_bytes));
  step.in.push_back(row_slice(item.in[1], rows, codec.scales));
  const uint64_t first = rows.first / codec.matrix.rows_per_scale;
  const uint64_t last = (rows.first + rows.count - 1) / codec.matrix.rows_per_scale;
  step.in.push_back(row_slice(item.in[2], {first, last - first + 1}, sizeof(float)));
}

uint64_t nvfp4_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte*,
                   std::byte* out) noexcept {
  const Nvfp4Codec& codec = nvfp4_of(stage);
  const uint64_t columns = codec.matrix.columns;
  const RowRange rows = rows_of(piece, columns), tile = rows_of(view.tile, columns);
  const float* const e4m3 = f8_values(DType::F8_E4M3);
  const float* const e2m1 = f4_values();
  auto* to = reinterpret_cast<float*>(out);
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const std::byte* codes = view.in[0] + to_size((r - tile.first) * codec.code_bytes);
    const std::byte* scales = view.in[1] + to_size((r - tile.first) * codec.scales);
    const uint64_t global_at = r / codec.matrix.rows_per_scale - tile.first / codec.matrix.rows_per_scale;
    const auto global = load_le<float>(view.in[2] + to_size(global_at * sizeof(float)));
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

constexpr StageOp kNvfp4Decoder{.word = nvfp4_word,
                                .run = nvfp4_run,
                                .inputs = 3,
                                .io = nvfp4_io,
                                .unit = nvfp4_unit,
                                .decodes = true,
                                .bits = nvfp4_bits};

}  // namespace

Stage nvfp4_decoder(const Nvfp4Matrix& matrix, TensorRef block_scales, TensorRef global_scales) {
  Stage stage{
      .op = &kNvfp4Decoder, .from = DType::U8, .to = DType::F32, .companions = {block_scales, global_scales}};
  stage.elements = matrix.rows * matrix.columns;
  stage.codec = std::make_shared<const Nvfp4Codec>(
      Nvfp4Codec{matrix, matrix.columns / 2, ceil_div(matrix.columns, kNvfp4Group)});
  stage.codec_key = std::to_string(matrix.columns) + ' ' + std::to_string(matrix.rows_per_scale);
  return stage;
}

}  // namespace tftf::transform
