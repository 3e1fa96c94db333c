// AQLM: blocks of outputs and inputs as sums of entries of codebooks (spec quant-layouts-2 7).
#include <algorithm>

#include "quant/families.h"
#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/encoder.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

Result<Weight> open_aqlm(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kAqlm = {.id = "aqlm", .title = "AQLM", .open = open_aqlm};
// Codebooks are read whole for every tile.
constexpr uint64_t kMostCodebookBytes = uint64_t{64} << 20;

struct AqlmState {
  uint64_t columns = 0;
  uint64_t blocks = 0;     // of a row of blocks: columns / in_group
  uint64_t out_group = 1;  // rows of a block
  uint64_t in_group = 1;
  uint64_t codebooks = 1;
  uint64_t entries = 0;  // of a codebook, a power of two
  uint64_t code_bytes = 1;
  DType entry_dtype{};
  DType scale_dtype{};
  uint64_t entry_size() const { return out_group * in_group; }
  uint64_t codebook_elements() const { return codebooks * entries * entry_size(); }
};

RowRange block_rows(const AqlmState& state, ElementRange range) {
  return rows_of(range, state.columns * state.out_group);
}

void read_aqlm(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<AqlmState>();
  const RowRange rows = block_rows(state, tile);
  ranges.push(rows_of_part(0, rows, state.blocks * state.codebooks * state.code_bytes));
  ranges.push({.part = 1, .row_bytes = state.codebook_elements() * dtype_bits(state.entry_dtype) / 8});
  ranges.push(rows_of_part(2, rows, dtype_bits(state.scale_dtype) / 8));
}

// Codebooks as F32, then the scales of the tile, then a sum.
uint64_t aqlm_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<AqlmState>();
  if (weight.elements == 0) return 0;
  const uint64_t rows = units / (state.columns * state.out_group) + 1;
  return (state.codebook_elements() + rows + state.entry_size()) * sizeof(float);
}

bool begin_aqlm(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<AqlmState>();
  const uint64_t count = state.codebook_elements();
  cast(task.kernels, state.entry_dtype, DType::F32, task.bytes[1], task.scratch, count);
  cast(task.kernels, state.scale_dtype, DType::F32, task.bytes[2],
       task.scratch + to_size(count * sizeof(float)), block_rows(state, task.tile).count);
  return true;
}

uint64_t aqlm_code(const AqlmState& state, const std::byte* codes, uint64_t index) noexcept {
  const uint64_t code = state.code_bytes == 1 ? static_cast<uint64_t>(codes[to_size(index)])
                                              : load_le<uint16_t>(codes + to_size(index * sizeof(uint16_t)));
  return code & (state.entries - 1);
}

uint64_t decode_aqlm(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                     std::byte* out) noexcept {
  const auto& state = weight.as<AqlmState>();
  const RowRange rows = block_rows(state, piece), tile = block_rows(state, task.tile);
  const auto* books = reinterpret_cast<const float*>(task.scratch);
  const float* scales = books + to_size(state.codebook_elements());
  float* const sum = const_cast<float*>(scales) + to_size(tile.count);
  const auto size = to_size(state.entry_size());
  auto* to = reinterpret_cast<float*>(out);
  for (uint64_t r = 0; r < rows.count; ++r) {
    const uint64_t in_tile = rows.first - tile.first + r;
    const std::byte* codes =
        task.bytes[0] + to_size(in_tile * state.blocks * state.codebooks * state.code_bytes);
    const float scale = scales[to_size(in_tile)];
    for (uint64_t b = 0; b < state.blocks; ++b) {
      for (uint64_t c = 0; c < state.codebooks; ++c) {
        const uint64_t code = aqlm_code(state, codes, b * state.codebooks + c);
        const float* entry = books + to_size((c * state.entries + code) * state.entry_size());
        for (size_t i = 0; i < size; ++i) sum[i] = c == 0 ? entry[i] : sum[i] + entry[i];
      }
      for (uint64_t o = 0; o < state.out_group; ++o)
        for (uint64_t i = 0; i < state.in_group; ++i)
          to[to_size(o * state.columns + b * state.in_group + i)] =
              sum[to_size(o * state.in_group + i)] * scale;
    }
    to += to_size(state.columns * state.out_group);
  }
  return settle_row(task.kernels, nullptr, nullptr, reinterpret_cast<float*>(out), piece.count);
}

constexpr Decoder kAqlmDecoder{
    .reads = read_aqlm, .decode = decode_aqlm, .scratch = aqlm_scratch, .begin = begin_aqlm};

void detect_aqlm(LayoutScan& scan) {
  for (TensorRef codes : scan.ending(".codes")) {
    const std::string_view module = scan.stem(codes, ".codes");
    const TensorInfo& stored = scan.info(codes);
    const std::optional<TensorRef> books = scan.sibling(module, ".codebooks");
    if (!books || stored.shape.size() != 3 || (stored.dtype != DType::I8 && stored.dtype != DType::I16) ||
        scan.info(*books).shape.size() != 4)
      continue;
    QuantMatch match;
    match.layout = kAqlm.id;
    match.module = std::string(module) + ".weight";
    match.weight = codes;
    match.role = "codes";
    match.companions.push_back({"codebooks", *books});
    if (!scan.add_companion(match, "scales", module, ".scales", {DType::F16, DType::BF16, DType::F32})) {
      scan.problem(kAqlm.id, match.module, "its scales are missing, or not F16, BF16 or F32",
                   {codes, *books});
      continue;
    }
    const Shape& book = scan.info(*books).shape;
    match.logical_dtype = native_dtype(scan.info(*books).dtype);
    const auto rows = checked_mul(stored.shape[0], book[2]), columns = checked_mul(stored.shape[1], book[3]);
    if (rows && columns) match.logical_shape = Shape{*rows, *columns};
    match.bits = stored.dtype == DType::I8 ? 8 : 16;
    match.group_size = book[3];
    scan.claim(std::move(match));
  }
}

Result<Weight> open_aqlm(OpenContext& context, const QuantMatch& match) {
  const TensorRef *books = match.find("codebooks"), *scales = match.find("scales");
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  if (books == nullptr || scales == nullptr || !match.logical_shape)
    return fault("lacks its codebooks or scales, or is too large");
  const TensorInfo &codes = context.checkpoint.info(match.weight), &book = context.checkpoint.info(*books),
                   &scale = context.checkpoint.info(*scales);
  if (!is_scale_float(book.dtype)) return fault("has codebooks that are not F16, BF16 or F32");
  if (scale.shape.empty() || scale.shape[0] != codes.shape[0] || element_count(scale.shape) != codes.shape[0])
    return fault("has scales of shape " + shape_text(scale.shape) + " and codes of shape " +
                 shape_text(codes.shape) +
                 ": not one scale for each first dimension, as where codes were permuted in memory");
  const uint64_t entries = book.shape[1], most = codes.dtype == DType::I8 ? 256 : 65536;
  if (book.shape[0] != codes.shape[2] || book.shape[0] == 0 || entries == 0 || entries > most ||
      (entries & (entries - 1)) != 0 || book.shape[2] == 0 || book.shape[3] == 0)
    return fault("has codebooks of shape " + shape_text(book.shape) + ", which codes of shape " +
                 shape_text(codes.shape) + " do not point to");
  if (book.bytes() > kMostCodebookBytes) return fault("has codebooks too large to be held");
  auto state = std::make_shared<AqlmState>();
  state->columns = (*match.logical_shape)[1];
  state->blocks = codes.shape[1];
  state->out_group = book.shape[2];
  state->in_group = book.shape[3];
  state->codebooks = book.shape[0];
  state->entries = entries;
  state->code_bytes = dtype_bits(codes.dtype) / 8;
  state->entry_dtype = book.dtype;
  state->scale_dtype = scale.dtype;
  const auto unit = checked_mul(state->columns, state->out_group);
  const auto elements = element_count(*match.logical_shape);
  if (!unit || *unit > kLargestUnitBytes / sizeof(float) || !elements)
    return fault("has rows too long to be decoded");
  Weight weight;
  weight.decoder = &kAqlmDecoder;
  weight.word = "aqlm " + std::to_string(state->codebooks) + "x" + std::to_string(entries);
  weight.key = std::string(dtype_name(book.dtype)) + ' ' + std::string(dtype_name(scale.dtype)) + ' ' +
               std::string(dtype_name(codes.dtype));
  for (const uint64_t n : {state->columns, state->out_group, state->in_group})
    weight.key += ' ' + std::to_string(n);
  weight.shape = *match.logical_shape;
  weight.elements = *elements;
  weight.parts = {{"codes", match.weight}, {"codebooks", *books}, {"scales", *scales}};
  weight.unit = std::max<uint64_t>(*unit, 1);
  weight.bits = static_cast<uint32_t>(ceil_div(
      state->blocks * state->codebooks * state->code_bytes * 8 + dtype_bits(scale.dtype), weight.unit));
  weight.reads = 3;
  weight.state = std::move(state);
  return weight;
}

constexpr const QuantFormat* kAqlmFormats[] = {&kAqlm};

}  // namespace

constexpr QuantFamily kAqlmFamily = {"AQLM", kAqlmFormats, detect_aqlm};

}  // namespace tftf
