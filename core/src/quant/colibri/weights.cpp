// Codes of colibri's containers to elements: rows of integers, E8 rows, range-coded records.
#include "quant/colibri/weights.h"

#include <algorithm>

#include "quant/fp8_grid.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/simd/cast.h"

namespace tftf::colibri {
namespace {

struct ColibriState {
  IntegerSpec spec;
  uint64_t columns = 0;
  uint64_t code_bytes = 0;                       // of a row
  uint64_t scales = 0;                           // of a row
  std::shared_ptr<const E8Rotation> rotation{};  // kE8Lattice
  std::shared_ptr<const RansTable> rans{};       // records whose bytes are the codes
  uint64_t rows = 0;                             // of a record
  uint64_t record_bytes = 0;
};

void read_rows(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<ColibriState>();
  const RowRange rows = rows_of(tile, state.columns);
  ranges.push(rows_of_part(0, rows, state.code_bytes));
  if (state.rotation == nullptr) ranges.push(rows_of_part(1, rows, state.scales * sizeof(float)));
}

void decode_rows(const ColibriState& state, const std::byte* codes, const std::byte* scale_bytes,
                 uint64_t rows, std::byte* out) noexcept {
  const uint64_t columns = state.columns;
  auto* row = reinterpret_cast<float*>(out);
  const auto* scales = reinterpret_cast<const float*>(scale_bytes);
  for (uint64_t r = 0; r < rows; ++r) {
    const std::span<float> to(row, to_size(columns));
    const std::span<const std::byte> from(codes, to_size(state.code_bytes));
    if (state.rotation != nullptr) {
      for (uint64_t b = 0; b < columns / kE8Block; ++b) {
        decode_e8_block(from.subspan(to_size(b * kE8BlockBytes)).first<kE8BlockBytes>(),
                        to.subspan(to_size(b * kE8Block)).first<kE8Block>());
      }
      state.rotation->inverse(to);
    } else {
      decode_row(state.spec, from, {scales, to_size(state.scales)}, to);
      scales += to_size(state.scales);
    }
    codes += to_size(state.code_bytes);
    row += to_size(columns);
  }
}

uint64_t decode_piece(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                      std::byte* out) noexcept {
  const auto& state = weight.as<ColibriState>();
  const uint64_t skipped = (piece.first - task.tile.first) / state.columns;
  const std::byte* scales =
      state.rotation != nullptr ? nullptr : task.bytes[1] + to_size(skipped * state.scales * sizeof(float));
  decode_rows(state, task.bytes[0] + to_size(skipped * state.code_bytes), scales, piece.count / state.columns,
              out);
  return 0;
}

void read_record(const Weight& weight, ElementRange, PartRanges& ranges) {
  const auto& state = weight.as<ColibriState>();
  ranges.push({.part = 0, .row_bytes = state.record_bytes});
  ranges.push({.part = 1, .row_bytes = state.rows * sizeof(float)});
}

uint64_t record_scratch(const Weight& weight, uint64_t) {
  const auto& state = weight.as<ColibriState>();
  return state.rows * state.code_bytes;
}

bool unpack_record(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<ColibriState>();
  return decode_rans_into({task.bytes[0], to_size(state.record_bytes)}, *state.rans,
                          {task.scratch, to_size(record_scratch(weight, 0))});
}

uint64_t decode_record(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                       std::byte* out) noexcept {
  const auto& state = weight.as<ColibriState>();
  const uint64_t first = piece.first / state.columns;
  decode_rows(state, task.scratch + to_size(first * state.code_bytes),
              task.bytes[1] + to_size(first * sizeof(float)), piece.count / state.columns, out);
  return 0;
}

std::optional<Format> format_of_id(std::string_view id) {
  for (const FormatInfo& info : all_formats())
    if (info.id == id) return info.format;
  return std::nullopt;
}

// Blocks of 128 x 128 codes kept as U8, with a flat grid.
Weight fp8_weight_of(const ColibriMatrix& matrix, TensorRef codes, TensorRef scales) {
  const TensorInfo code_info{.name = {}, .dtype = DType::F8_E4M3, .shape = {matrix.rows, matrix.columns}};
  const TensorInfo scale_info{
      .name = {}, .dtype = DType::F32, .shape = {blocks128(matrix.rows), blocks128(matrix.columns)}};
  const auto grid = fp8_blocks(code_info, scale_info, {128, 128});
  return *fp8_grid_weight(*grid, code_info.shape, codes, scales);
}

// The table of a file, read once. Null: it has no sound one.
std::shared_ptr<const RansTable> table_of(OpenContext& context, uint32_t shard) {
  const std::string key = "rans table " + std::to_string(shard);
  const auto [at, fresh] = context.kept.emplace(key, nullptr);
  if (fresh) {
    for (const auto& [name, text] : context.checkpoint.shard(shard).header.metadata) {
      if (name != kRansTableKey) continue;
      RansTableReading reading = read_rans_table(text);
      if (reading.table) at->second = std::make_shared<const RansTable>(*std::move(reading.table));
    }
  }
  return std::static_pointer_cast<const RansTable>(at->second);
}

std::shared_ptr<const E8Rotation> rotation_of(uint64_t columns,
                                              std::map<std::string, std::shared_ptr<const void>>& kept) {
  std::shared_ptr<const void>& at = kept["e8 rotation " + std::to_string(columns)];
  if (at == nullptr) at = std::make_shared<const E8Rotation>(columns);
  return std::static_pointer_cast<const E8Rotation>(at);
}

const Decoder kRowDecoder{.reads = read_rows, .decode = decode_piece};
const Decoder kRecordDecoder{
    .reads = read_record, .decode = decode_record, .scratch = record_scratch, .begin = unpack_record};

}  // namespace

Result<Weight> open_colibri(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scales = match.find("qs");
  const auto format = format_of_id(match.layout);
  if (scales == nullptr || !format || !match.logical_shape || match.logical_shape->size() != 2)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its .qs or its shape");
  const uint64_t rows = (*match.logical_shape)[0], columns = (*match.logical_shape)[1];
  const auto codes = weight_bytes(*format, rows, columns);
  const auto count = scale_count(*format, rows, columns, std::max<uint64_t>(match.group_size, 1));
  const TensorInfo &stored = context.checkpoint.info(match.weight),
                   &values = context.checkpoint.info(*scales);
  if (!codes || !count || stored.bytes() != *codes || values.bytes() / sizeof(float) != *count ||
      values.dtype != DType::F32) {
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has " + std::to_string(stored.bytes()) + " bytes of codes and " +
                            std::to_string(values.bytes()) + " of scales, not those of [" +
                            std::to_string(rows) + "," + std::to_string(columns) + "]");
  }
  if (*format == Format::kE8Lattice && columns % kE8Block != 0) {
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has rows of " + std::to_string(columns) + ", not a multiple of 256");
  }
  if (rows == 0 || columns == 0)
    return weight_fault(ErrorCode::kRefusedShape, context, match, "has no elements");
  return colibri_weight({*format, rows, columns, match.group_size, 0}, match.weight, *scales, context.kept);
}

Result<Weight> open_rans_record(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scales = match.find("qs");
  const std::shared_ptr<const RansTable> table = table_of(context, match.weight.shard);
  if (table == nullptr)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "has no sound " + std::string(kRansTableKey) + " in its file's metadata");
  if (scales == nullptr || !match.logical_shape || match.logical_shape->size() != 2)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "has its rows and columns in no config.json; --rows and --columns tell them");
  const uint64_t rows = (*match.logical_shape)[0], columns = (*match.logical_shape)[1];
  const TensorInfo& values = context.checkpoint.info(*scales);
  const auto elements = checked_mul(rows, columns);
  if (rows == 0 || columns == 0 || !elements || values.dtype != DType::F32 ||
      values.bytes() / sizeof(float) != rows)
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has " + std::to_string(values.bytes()) +
                            " bytes of scales, not one F32 for each of " + std::to_string(rows) + " rows");
  Weight weight;
  weight.decoder = &kRecordDecoder;
  weight.word = "int4-rans256-g0";
  weight.shape = {rows, columns};
  weight.elements = *elements;
  weight.parts = {{"weight", match.weight}, {"qs", *scales}};
  weight.unit = columns;
  weight.tile_unit = *elements;
  weight.bits = 8;
  weight.reads = 2;
  auto state = std::make_shared<ColibriState>();
  state->spec = {Format::kInt4Row, 4, 0};
  state->rows = rows;
  state->columns = columns;
  state->code_bytes = ceil_div(columns, 2);
  state->scales = 1;
  state->record_bytes = context.checkpoint.info(match.weight).bytes();
  weight.key = std::to_string(rows) + ' ' + std::to_string(columns) + ' ' +
               std::to_string(state->record_bytes) + ' ' + rans_table_crc(*table);
  state->rans = table;
  weight.state = std::move(state);
  return weight;
}

Weight colibri_weight(const ColibriMatrix& matrix, TensorRef codes, TensorRef scales,
                      std::map<std::string, std::shared_ptr<const void>>& kept) {
  if (matrix.format == Format::kFp8Block128) return fp8_weight_of(matrix, codes, scales);
  auto state = std::make_shared<ColibriState>();
  state->spec = {matrix.format, matrix.bits, matrix.group_size};
  state->columns = matrix.columns;
  state->code_bytes = weight_bytes(matrix.format, 1, matrix.columns).value_or(0);
  if (matrix.format == Format::kE8Lattice) {
    state->rotation = rotation_of(matrix.columns, kept);
  } else {
    state->scales = scale_count(matrix.format, 1, matrix.columns, matrix.group_size).value_or(0);
  }
  Weight weight;
  weight.decoder = &kRowDecoder;
  weight.word = format_info(matrix.format).id;
  if (matrix.format == Format::kInt4Grouped) weight.word += " gs=" + std::to_string(matrix.group_size);
  weight.key = std::to_string(matrix.columns) + ' ' + std::to_string(matrix.group_size);
  weight.shape = {matrix.rows, matrix.columns};
  weight.elements = matrix.rows * matrix.columns;
  weight.parts = {{"weight", codes}, {"qs", scales}};
  weight.unit = matrix.columns;
  weight.bits = static_cast<uint32_t>(
      ceil_div((state->code_bytes + state->scales * sizeof(float)) * 8, matrix.columns));
  weight.reads = state->rotation != nullptr ? 1 : 2;
  weight.state = std::move(state);
  return weight;
}

}  // namespace tftf::colibri
