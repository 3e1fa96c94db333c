#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec_stages.h"
#include "row_stages.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/simd/cast.h"

namespace tftf::transform {
namespace {

using colibri::Format;
using colibri::IntegerSpec;

constexpr uint32_t kInfiniteMagnitude = 0x7F800000;
constexpr uint16_t kInfiniteHalf = 0x7C00;

struct ColibriCodec {
  IntegerSpec spec;
  uint64_t columns = 0;
  uint64_t code_bytes = 0;                           // of a row
  uint64_t scales = 0;                               // of a row
  std::unique_ptr<const colibri::E8Rotation> e8{};   // kE8Lattice
  std::shared_ptr<const colibri::RansTable> rans{};  // records whose bytes are the codes
  uint64_t rows = 0;                                 // of a record
};

const ColibriCodec& codec_of(const Stage& stage) {
  return *static_cast<const ColibriCodec*>(stage.codec.get());
}

std::string codec_word(const char* verb, const Stage& stage) {
  const ColibriCodec& codec = codec_of(stage);
  std::string text = verb + std::string(colibri::format_info(codec.spec.format).id);
  if (codec.spec.format == Format::kInt4Grouped) text += " gs=" + std::to_string(codec.spec.group_size);
  return text;
}

uint64_t row_unit(const Stage& stage) { return codec_of(stage).columns; }

uint64_t codec_bits(const Stage& stage) {
  const ColibriCodec& codec = codec_of(stage);
  return ceil_div((codec.code_bytes + codec.scales * sizeof(float)) * 8, codec.columns);
}

std::string decode_word(const Stage& stage) { return codec_word("dequant ", stage); }

void decode_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  const ColibriCodec& codec = codec_of(stage);
  const RowRange rows = rows_of(tile, codec.columns);
  step.in.push_back(row_slice(item.in[0], rows, codec.code_bytes));
  if (codec.e8 == nullptr) step.in.push_back(row_slice(item.in[1], rows, codec.scales * sizeof(float)));
}

uint64_t decode_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte*,
                    std::byte* out) noexcept {
  const ColibriCodec& codec = codec_of(stage);
  const uint64_t columns = codec.columns, skipped = (piece.first - view.tile.first) / columns;
  const std::byte* codes = view.in[0] + to_size(skipped * codec.code_bytes);
  auto* row = reinterpret_cast<float*>(out);
  for (uint64_t r = 0; r < piece.count / columns; ++r) {
    const std::span<float> to(row, to_size(columns));
    const std::span<const std::byte> from(codes, to_size(codec.code_bytes));
    if (codec.e8 != nullptr) {
      for (uint64_t b = 0; b < columns / colibri::kE8Block; ++b) {
        colibri::decode_e8_block(
            from.subspan(to_size(b * colibri::kE8BlockBytes)).first<colibri::kE8BlockBytes>(),
            to.subspan(to_size(b * colibri::kE8Block)).first<colibri::kE8Block>());
      }
      codec.e8->inverse(to);
    } else {
      const auto* scales = reinterpret_cast<const float*>(view.in[1]) + to_size((skipped + r) * codec.scales);
      colibri::decode_row(codec.spec, from, {scales, to_size(codec.scales)}, to);
    }
    codes += to_size(codec.code_bytes);
    row += to_size(columns);
  }
  return 0;
}

std::string rans_word(const Stage&) { return "dequant int4-rans256-g0"; }

uint64_t rans_matrix(const Stage& stage) { return codec_of(stage).rows * codec_of(stage).columns; }

void rans_io(const Stage&, const Item& item, ElementRange, StepIo& step) {
  step.in.push_back(item.in[0]);
  step.in.push_back(item.in[1]);
}

uint64_t rans_packed_bytes(const ColibriCodec& codec) { return codec.rows * codec.code_bytes; }

uint64_t rans_scratch(const Stage& stage, const Item&, uint64_t) {
  return slot_rounded(rans_packed_bytes(codec_of(stage)));
}

void rans_begin(const Stage& stage, const TileView& view) noexcept {
  const ColibriCodec& codec = codec_of(stage);
  const MutableBytes packed(view.scratch, to_size(rans_packed_bytes(codec)));
  const Bytes record(view.in[0], to_size(view.item->in[0].row_bytes));
  if (!colibri::decode_rans_into(record, *codec.rans, packed)) view.value->x[1] = 1;
}

uint64_t rans_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                  std::byte* out) noexcept {
  const std::byte* const inputs[] = {view.scratch, view.in[1]};
  TileView decoded = view;
  decoded.in = inputs;
  return decode_run(stage, decoded, piece, in, out);
}

std::string encode_word(const Stage& stage) { return codec_word("quantize ", stage); }

void encode_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  const ColibriCodec& codec = codec_of(stage);
  const RowRange rows = rows_of(tile, codec.columns);
  step.out.push_back(row_slice(item.out[0], rows, codec.code_bytes));
  if (codec.e8 == nullptr) step.out.push_back(row_slice(item.out[1], rows, codec.scales * sizeof(float)));
}

uint64_t encode_scratch(const Stage& stage, const Item& item, uint64_t) {
  const ColibriCodec& codec = codec_of(stage);
  const bool copies = stage.from != DType::F32 || codec.e8 != nullptr;
  return copies && item.units > 0 ? slot_rounded(codec.columns * sizeof(float)) : 0;
}

// Rotated rows on the lattice. Returns how many values have no place there: what is not finite, and blocks whose
// super-scale would be infinite.
uint64_t encode_e8_row(const KernelTable& kernels, const ColibriCodec& codec, std::span<float> row,
                       std::byte* codes) noexcept {
  codec.e8->forward(row);
  if (kernels.largest_magnitude(row.data(), row.size()) >= kInfiniteMagnitude) {
    std::memset(codes, 0, to_size(codec.code_bytes));
    return row.size();
  }
  uint64_t lost = 0;
  for (uint64_t b = 0; b < row.size() / colibri::kE8Block; ++b) {
    const std::span<std::byte, colibri::kE8BlockBytes> block(codes + to_size(b * colibri::kE8BlockBytes),
                                                             colibri::kE8BlockBytes);
    colibri::encode_e8_block(kernels, row.subspan(to_size(b * colibri::kE8Block)).first<colibri::kE8Block>(),
                             block);
    if (load_le<uint16_t>(block.data() + 96) == kInfiniteHalf) lost += colibri::kE8Block;
  }
  return lost;
}

uint64_t encode_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                    std::byte*) noexcept {
  const ColibriCodec& codec = codec_of(stage);
  const uint64_t columns = codec.columns, skipped = (piece.first - view.tile.first) / columns;
  const uint64_t in_bytes = columns * dtype_bits(stage.from) / 8;
  auto* copy = reinterpret_cast<float*>(view.scratch);
  for (uint64_t r = 0; r < piece.count / columns; ++r) {
    const float* row = reinterpret_cast<const float*>(in);
    if (stage.from != DType::F32 || codec.e8 != nullptr) {
      cast(*view.kernels, stage.from, DType::F32, in, view.scratch, columns);
      row = copy;
    }
    std::byte* codes = view.out[0] + to_size((skipped + r) * codec.code_bytes);
    if (codec.e8 != nullptr) {
      view.value->n[3] += encode_e8_row(*view.kernels, codec, {copy, to_size(columns)}, codes);
    } else {
      auto* scales = reinterpret_cast<float*>(view.out[1]) + to_size((skipped + r) * codec.scales);
      view.value->n[3] +=
          colibri::encode_row(*view.kernels, codec.spec, {row, to_size(columns)},
                              {codes, to_size(codec.code_bytes)}, {scales, to_size(codec.scales)});
    }
    in += to_size(in_bytes);
  }
  return 0;
}

constexpr StageOp kColibriDecoder{.word = decode_word,
                                  .run = decode_run,
                                  .inputs = 2,
                                  .io = decode_io,
                                  .unit = row_unit,
                                  .decodes = true,
                                  .bits = codec_bits};
constexpr StageOp kE8Decoder{.word = decode_word,
                             .run = decode_run,
                             .inputs = 1,
                             .io = decode_io,
                             .unit = row_unit,
                             .decodes = true,
                             .bits = codec_bits};
constexpr StageOp kRansDecoder{.word = rans_word,
                               .run = rans_run,
                               .inputs = 2,
                               .io = rans_io,
                               .scratch = rans_scratch,
                               .begin = rans_begin,
                               .unit = row_unit,
                               .decodes = true,
                               .tile_unit = rans_matrix,
                               .bits = codec_bits};
constexpr StageOp kColibriEncoder{.word = encode_word,
                                  .run = encode_run,
                                  .io = encode_io,
                                  .scratch = encode_scratch,
                                  .unit = row_unit,
                                  .encodes = true,
                                  .bits = codec_bits};

// A float matrix of FP8 codes with a grid of 128 x 128.
Stage fp8_block_decoder(const ColibriMatrix& matrix, TensorRef scales) {
  Fp8Weight weight;
  weight.scales = scales;
  weight.code_dtype = DType::F8_E4M3;
  weight.scale_dtype = DType::F32;
  weight.rows = matrix.rows;
  weight.cols = matrix.columns;
  weight.block_rows = weight.block_cols = 128;
  weight.grid_rows = colibri::blocks128(matrix.rows);
  weight.grid_cols = colibri::blocks128(matrix.columns);
  return fp8_decoder(weight, DType::F32);
}

void set_codec(Stage& stage, const ColibriMatrix& matrix) {
  auto codec = std::make_shared<ColibriCodec>();
  codec->spec = {matrix.format, matrix.bits, matrix.group_size};
  codec->columns = matrix.columns;
  codec->code_bytes = colibri::weight_bytes(matrix.format, 1, matrix.columns).value_or(0);
  if (matrix.format == Format::kE8Lattice) {
    codec->e8 = std::make_unique<const colibri::E8Rotation>(matrix.columns);
  } else {
    codec->scales = colibri::scale_count(matrix.format, 1, matrix.columns, matrix.group_size).value_or(0);
  }
  stage.elements = matrix.rows * matrix.columns;
  stage.codec_key = std::to_string(matrix.columns) + ' ' + std::to_string(matrix.group_size) + ' ' +
                    std::to_string(matrix.bits);
  stage.codec = std::move(codec);
}

}  // namespace

Stage colibri_decoder(const ColibriMatrix& matrix, TensorRef scales) {
  if (matrix.format == Format::kFp8Block128) return fp8_block_decoder(matrix, scales);
  Stage stage{.op = matrix.format == Format::kE8Lattice ? &kE8Decoder : &kColibriDecoder,
              .from = DType::U8,
              .to = DType::F32,
              .companions = {scales}};
  set_codec(stage, matrix);
  return stage;
}

Stage rans_decoder(uint64_t rows, uint64_t columns, TensorRef scales,
                   std::shared_ptr<const colibri::RansTable> table) {
  Stage stage{.op = &kRansDecoder, .from = DType::U8, .to = DType::F32, .companions = {scales}};
  auto codec = std::make_shared<ColibriCodec>();
  codec->spec = {Format::kInt4Row, 4, 0};
  codec->rows = rows;
  codec->columns = columns;
  codec->code_bytes = ceil_div(columns, 2);
  codec->scales = 1;
  stage.elements = rows * columns;
  stage.codec_key =
      std::to_string(rows) + ' ' + std::to_string(columns) + ' ' + colibri::rans_table_crc(*table);
  codec->rans = std::move(table);
  stage.codec = std::move(codec);
  return stage;
}

Stage colibri_encoder(const ColibriMatrix& matrix, DType from) {
  if (matrix.format == Format::kFp8Block128) return fp8_encoder(matrix.rows, matrix.columns, from);
  Stage stage{.op = &kColibriEncoder, .from = from, .to = DType::U8};
  set_codec(stage, matrix);
  return stage;
}

}  // namespace tftf::transform
