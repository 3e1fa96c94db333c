// Elements to codes of colibri's containers, behind the write gate.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/colibri/weights.h"
#include "quant/fp8_block_encoder.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/quant/colibri/write_gate.h"
#include "tftf/simd/cast.h"

namespace tftf::colibri {
namespace {

constexpr uint32_t kInfiniteMagnitude = 0x7F800000;
constexpr uint16_t kInfiniteHalf = 0x7C00;

struct ColibriRows {
  IntegerSpec spec;
  uint64_t columns = 0;
  uint64_t code_bytes = 0;                       // of a row
  uint64_t scales = 0;                           // of a row
  std::unique_ptr<const E8Rotation> rotation{};  // kE8Lattice
};

void write_rows(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& state = encoded.as<ColibriRows>();
  const RowRange rows = rows_of(tile, state.columns);
  ranges.push(rows_of_part(0, rows, state.code_bytes));
  if (state.rotation == nullptr) ranges.push(rows_of_part(1, rows, state.scales * sizeof(float)));
}

// A row as F32.
uint64_t row_scratch(const Encoded& encoded, uint64_t) {
  return encoded.as<ColibriRows>().columns * sizeof(float);
}

// Rotated rows on the lattice. Returns how many values have no place there: what is not finite, and blocks whose
// super-scale would be infinite.
uint64_t encode_e8_row(const KernelTable& kernels, const ColibriRows& state, std::span<float> row,
                       std::byte* codes) noexcept {
  state.rotation->forward(row);
  if (kernels.largest_magnitude(row.data(), row.size()) >= kInfiniteMagnitude) {
    std::memset(codes, 0, to_size(state.code_bytes));
    return row.size();
  }
  uint64_t lost = 0;
  for (uint64_t b = 0; b < row.size() / kE8Block; ++b) {
    const std::span<std::byte, kE8BlockBytes> block(codes + to_size(b * kE8BlockBytes), kE8BlockBytes);
    encode_e8_block(kernels, row.subspan(to_size(b * kE8Block)).first<kE8Block>(), block);
    if (load_le<uint16_t>(block.data() + 96) == kInfiniteHalf) lost += kE8Block;
  }
  return lost;
}

uint64_t encode_rows(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                     const std::byte* in) noexcept {
  const auto& state = encoded.as<ColibriRows>();
  const uint64_t columns = state.columns, skipped = (piece.first - task.tile.first) / columns;
  const uint64_t in_bytes = columns * dtype_bits(task.from) / 8;
  auto* copy = reinterpret_cast<float*>(task.scratch);
  uint64_t lost = 0;
  for (uint64_t r = 0; r < piece.count / columns; ++r) {
    const float* row = reinterpret_cast<const float*>(in);
    if (task.from != DType::F32 || state.rotation != nullptr) {
      cast(task.kernels, task.from, DType::F32, in, task.scratch, columns);
      row = copy;
    }
    std::byte* codes = task.out[0] + to_size((skipped + r) * state.code_bytes);
    if (state.rotation != nullptr) {
      lost += encode_e8_row(task.kernels, state, {copy, to_size(columns)}, codes);
    } else {
      auto* scales = reinterpret_cast<float*>(task.out[1]) + to_size((skipped + r) * state.scales);
      lost += encode_row(task.kernels, state.spec, {row, to_size(columns)},
                         {codes, to_size(state.code_bytes)}, {scales, to_size(state.scales)});
    }
    in += to_size(in_bytes);
  }
  return lost;
}

struct BitRange {
  uint32_t least = 0, most = 0;
};
BitRange bit_range(Format format) {
  switch (format) {
    case Format::kInt8Row:
      return {2, 8};
    case Format::kInt4Row:
    case Format::kInt4Grouped:
      return {2, 4};
    case Format::kInt3G64:
      return {3, 3};
    case Format::kInt2Row:
      return {2, 2};
    default:
      return {};
  }
}

Result<void> check_colibri(std::string_view id, const EncodeOptions& options) {
  Format format{};
  for (const FormatInfo& info : all_formats())
    if (info.id == id) format = info.format;
  const auto usage = [&](const std::string& what) {
    return Error{.code = ErrorCode::kUsage, .message = what + " does not go with " + std::string(id) + "."};
  };
  const BitRange range = bit_range(format);
  if (options.bits != 0 && (options.bits < range.least || options.bits > range.most))
    return usage("--bits " + std::to_string(options.bits));
  const bool grouped = format == Format::kInt4Grouped;
  if (options.group_size != 0 && !grouped && !(format == Format::kInt3G64 && options.group_size == 64))
    return usage("--group-size " + std::to_string(options.group_size));
  if (options.whole_rows) return usage("--group-size -1");
  if (options.asymmetric) return usage("--asymmetric");
  return {};
}

template <Format kFormat>
Result<Encoded> plan_colibri(const EncodeRequest& request) {
  const bool is_fp8 = kFormat == Format::kFp8Block128;
  TFTF_TRY(check_encoded_unit(request, is_fp8 ? 128 : 1));
  const bool is_e8 = kFormat == Format::kE8Lattice;
  if (is_e8 && request.columns % kE8Block != 0) {
    return cannot_encode(request, "cannot be coded: e8: input dim " + std::to_string(request.columns) +
                                      " is not a multiple of 256");
  }
  ColibriMatrix matrix{kFormat, request.rows, request.columns, 0, request.options.bits};
  if (matrix.bits == 0) matrix.bits = bit_range(kFormat).most;
  if (kFormat == Format::kInt4Grouped)
    matrix.group_size = request.options.group_size == 0 ? 64 : request.options.group_size;
  const auto bytes = weight_bytes(kFormat, request.rows, request.columns);
  const auto count = scale_count(kFormat, request.rows, request.columns, matrix.group_size);
  if (!bytes || !count) return cannot_encode(request, "is too large");
  const WriteCheck verdict = check_written({.name = request.name,
                                            .rows = request.rows,
                                            .columns = request.columns,
                                            .weight_bytes = *bytes,
                                            .scale_bytes = *count * sizeof(float),
                                            .format = kFormat,
                                            .group_size = matrix.group_size,
                                            .stamp = request.stamp},
                                           request.options.strict);
  if (verdict.refused) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = verdict.sentence,
                 .tensor = request.name,
                 .found = std::string(verdict.reason)};
  }
  Encoded encoded = colibri_encoded(matrix);
  encoded.warning = verdict.sentence;
  encoded.parts = {{request.name, DType::U8, is_fp8 ? Shape{request.rows, request.columns} : Shape{*bytes}},
                   {request.name + ".qs", DType::F32, {*count}}};
  if (is_e8) {
    std::byte tag[sizeof(float)];
    store_le(tag, kE8Tag);
    encoded.parts[1].literal = std::string(reinterpret_cast<const char*>(tag), sizeof tag);
  }
  return encoded;
}

template <Format kFormat>
constexpr Encoder row_encoder() {
  return {.check = check_colibri,
          .plan = plan_colibri<kFormat>,
          .writes = write_rows,
          .encode = encode_rows,
          .scratch = row_scratch,
          .stamped = true};
}

}  // namespace

Encoded colibri_encoded(const ColibriMatrix& matrix) {
  const Encoder* encoder = &kColibriEncoders[static_cast<size_t>(matrix.format)];
  if (matrix.format == Format::kFp8Block128) return fp8_blocks_encoded(matrix.rows, matrix.columns, encoder);
  auto state = std::make_shared<ColibriRows>();
  state->spec = {matrix.format, matrix.bits, matrix.group_size};
  state->columns = matrix.columns;
  state->code_bytes = weight_bytes(matrix.format, 1, matrix.columns).value_or(0);
  if (matrix.format == Format::kE8Lattice) {
    state->rotation = std::make_unique<const E8Rotation>(matrix.columns);
  } else {
    state->scales = scale_count(matrix.format, 1, matrix.columns, matrix.group_size).value_or(0);
  }
  Encoded encoded;
  encoded.encoder = encoder;
  encoded.word = format_info(matrix.format).id;
  if (matrix.format == Format::kInt4Grouped) encoded.word += " gs=" + std::to_string(matrix.group_size);
  encoded.key = std::to_string(matrix.columns) + ' ' + std::to_string(matrix.group_size) + ' ' +
                std::to_string(matrix.bits);
  encoded.elements = matrix.rows * matrix.columns;
  encoded.unit = matrix.columns;
  encoded.bits = static_cast<uint32_t>(
      ceil_div((state->code_bytes + state->scales * sizeof(float)) * 8, matrix.columns));
  encoded.state = std::move(state);
  return encoded;
}

const Encoder kColibriEncoders[] = {
    {},
    row_encoder<Format::kInt8Row>(),
    row_encoder<Format::kInt4Row>(),
    row_encoder<Format::kInt2Row>(),
    row_encoder<Format::kInt4Grouped>(),
    row_encoder<Format::kInt3G64>(),
    row_encoder<Format::kE8Lattice>(),
    {},
    {.check = check_colibri,
     .plan = plan_colibri<Format::kFp8Block128>,
     .writes = write_fp8_blocks,
     .encode = encode_fp8_blocks,
     .scratch = fp8_blocks_scratch,
     .stamped = true},
};

}  // namespace tftf::colibri
