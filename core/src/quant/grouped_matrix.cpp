// Reads and decodes matrices of codes under scales of groups.
#include "quant/grouped_matrix.h"

#include <algorithm>
#include <cmath>

#include "quant/nibble_groups.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/encoder.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

using Order = GroupedMatrix::Order;
using Zero = GroupedMatrix::Zero;

constexpr uint64_t kTileRows = 128, kTileColumns = 4, kTileBytes = kTileRows * kTileColumns;

struct GroupedState {
  GroupedMatrix matrix;
  // Parts of a tile, by their place among its ranges; 0: not there.
  size_t tensor_scale = 0;
  size_t column_scales = 0;
  bool has_zeros() const { return matrix.zero != Zero::kNone; }
};

uint64_t swizzled_row_bytes(const GroupedMatrix& m) {
  return ceil_div(m.groups(), kTileColumns) * kTileBytes;
}

// Rows of the scale grid that rows of the matrix need.
RowRange scale_rows(const GroupedMatrix& m, RowRange rows) {
  const uint64_t first = rows.first / m.rows_per_scale;
  return {first, (rows.first + rows.count - 1) / m.rows_per_scale - first + 1};
}

PartRange grid_range(const GroupedMatrix& m, uint32_t part, RowRange rows, DType dtype) {
  const uint64_t size = dtype_bits(dtype) / 8;
  switch (m.order) {
    case Order::kTransposed:
      return {.part = part,
              .rows = static_cast<uint32_t>(m.groups()),
              .offset = rows.first * size,
              .row_bytes = rows.count * size,
              .stride = m.rows * size};
    case Order::kSwizzled: {
      const uint64_t first = rows.first / kTileRows;
      const uint64_t last = (rows.first + rows.count - 1) / kTileRows;
      return rows_of_part(part, {first, last - first + 1}, swizzled_row_bytes(m));
    }
    default:
      return rows_of_part(part, scale_rows(m, rows), m.groups() * size);
  }
}

void read_grouped(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<GroupedState>();
  const GroupedMatrix& m = state.matrix;
  const RowRange rows = rows_of(tile, m.columns);
  uint32_t part = 0;
  ranges.push(rows_of_part(part++, rows, m.row_bytes()));
  ranges.push(grid_range(m, part++, rows, m.scale_dtype));
  if (m.zero != Zero::kNone) ranges.push(grid_range(m, part++, rows, m.zero_dtype));
  if (state.tensor_scale != 0) ranges.push({.part = part++, .row_bytes = sizeof(float)});
  if (state.column_scales != 0)
    ranges.push({.part = part, .row_bytes = m.columns * dtype_bits(m.column_dtype) / 8});
}

// Scratch: scales of the tile as F32, then zeros, then scales of columns, then a row of elements, then its codes, a byte
// each.
uint64_t grid_floats(const GroupedMatrix& m, uint64_t rows) {
  return m.groups() * std::min(rows, (rows - 1) / m.rows_per_scale + 2);
}

struct GroupedScratch {
  float *scales, *zeros, *columns, *row;
  uint8_t* codes;
};
GroupedScratch grouped_scratch_of(const GroupedState& state, uint64_t rows, std::byte* at) {
  const auto grid = to_size(grid_floats(state.matrix, rows));
  auto* scales = reinterpret_cast<float*>(at);
  float* zeros = scales + grid;
  float* columns = zeros + (state.has_zeros() ? grid : 0);
  float* row = columns + (state.column_scales != 0 ? to_size(state.matrix.columns) : 0);
  return {scales, zeros, columns, row, reinterpret_cast<uint8_t*>(row + to_size(state.matrix.columns))};
}

uint64_t grouped_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<GroupedState>();
  const GroupedMatrix& m = state.matrix;
  if (m.columns == 0 || m.rows == 0) return 0;
  const uint64_t rows = std::clamp<uint64_t>(units / m.columns, 1, m.rows);
  const uint64_t floats =
      grid_floats(m, rows) * (state.has_zeros() ? 2 : 1) + (state.column_scales != 0 ? 2 : 1) * m.columns;
  return floats * sizeof(float) + m.columns;
}

void unswizzle(const KernelTable& kernels, const GroupedMatrix& m, RowRange rows, const std::byte* in,
               float* out) noexcept {
  float values[256];
  std::byte codes[256];
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::byte>(i);
  cast(kernels, m.scale_dtype, DType::F32, codes, reinterpret_cast<std::byte*>(values), 256);
  const uint64_t first = rows.first / kTileRows * kTileRows;
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const std::byte* row =
        in + to_size((r - first) / kTileRows * swizzled_row_bytes(m) + r % 32 * 16 + r % kTileRows / 32 * 4);
    for (uint64_t g = 0; g < m.groups(); ++g)
      *out++ = values[static_cast<uint8_t>(row[to_size(g / kTileColumns * kTileBytes + g % kTileColumns)])];
  }
}

bool widen_grids(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<GroupedState>();
  const GroupedMatrix& m = state.matrix;
  const RowRange rows = rows_of(task.tile, m.columns);
  const GroupedScratch scratch = grouped_scratch_of(state, rows.count, task.scratch);
  const auto widen = [&](DType from, size_t range, float* to, uint64_t count) {
    cast(task.kernels, from, DType::F32, task.bytes[range], reinterpret_cast<std::byte*>(to), count);
  };
  const uint64_t count =
      m.groups() * (m.order == Order::kTransposed ? rows.count : scale_rows(m, rows).count);
  if (m.order == Order::kSwizzled) {
    unswizzle(task.kernels, m, rows, task.bytes[1], scratch.scales);
  } else {
    widen(m.scale_dtype, 1, scratch.scales, count);
  }
  if (state.has_zeros()) widen(m.zero_dtype, 2, scratch.zeros, count);
  if (state.column_scales != 0) widen(m.column_dtype, state.column_scales, scratch.columns, m.columns);
  return true;
}

// Eight codes from `bits` bytes.
template <uint32_t kBits>
void unpack_eights(const std::byte* in, uint64_t eights, uint8_t* out) noexcept {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  for (uint64_t e = 0; e < eights; ++e) {
    uint64_t word = 0;
    for (uint32_t b = 0; b < kBits; ++b) word |= static_cast<uint64_t>(in[b]) << (8 * b);
    for (uint32_t j = 0; j < 8; ++j) out[j] = static_cast<uint8_t>(word >> (kBits * j) & kMask);
    in += kBits;
    out += 8;
  }
}

void unpack_nibbles(const std::byte* in, uint64_t pairs, uint8_t* out) noexcept {
  for (uint64_t i = 0; i < pairs; ++i) {
    const auto both = static_cast<uint8_t>(in[to_size(i)]);
    out[to_size(2 * i)] = both & 15;
    out[to_size(2 * i + 1)] = both >> 4;
  }
}

// The codes of a row, a byte each.
const uint8_t* unpack_row(const GroupedMatrix& m, const std::byte* in, uint8_t* out) noexcept {
  if (m.bits == 8) return reinterpret_cast<const uint8_t*>(in);
  const uint64_t eights = m.columns / 8;
  switch (m.bits) {
    case 1:
      unpack_eights<1>(in, eights, out);
      break;
    case 2:
      unpack_eights<2>(in, eights, out);
      break;
    case 3:
      unpack_eights<3>(in, eights, out);
      break;
    case 4:
      unpack_nibbles(in, eights * 4, out);
      break;
    case 5:
      unpack_eights<5>(in, eights, out);
      break;
    case 6:
      unpack_eights<6>(in, eights, out);
      break;
    default:
      unpack_eights<7>(in, eights, out);
      break;
  }
  const uint64_t bytes = m.row_bytes();
  for (uint64_t c = eights * 8; c < m.columns; ++c) {
    const uint64_t bit = c * m.bits, at = bit / 8;
    auto word = static_cast<uint32_t>(in[to_size(at)]);
    if (at + 1 < bytes) word |= static_cast<uint32_t>(in[to_size(at + 1)]) << 8;
    out[to_size(c)] = static_cast<uint8_t>(word >> (bit % 8) & ((1u << m.bits) - 1));
  }
  return out;
}

struct GroupScale {
  float scale = 1, zero = 0;
};

void decode_group(const GroupedMatrix& m, const uint8_t* codes, uint64_t count, GroupScale by,
                  float* out) noexcept {
  const auto n = to_size(count);
  if (m.codes == GroupedMatrix::Codes::kTable) {
    const float* const table = m.table;
    for (size_t i = 0; i < n; ++i) out[i] = table[codes[i]];
  } else {
    const bool is_signed = m.codes == GroupedMatrix::Codes::kSigned;
    const int32_t flip = is_signed ? 1 << (m.bits - 1) : 0, offset = is_signed ? flip : m.offset;
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>((codes[i] ^ flip) - offset);
  }
  switch (m.zero) {
    case Zero::kNone:
      for (size_t i = 0; i < n; ++i) out[i] = out[i] * by.scale;
      break;
    case Zero::kSubtract:
      for (size_t i = 0; i < n; ++i) {
        const float shifted = out[i] - by.zero;
        out[i] = shifted * by.scale;
      }
      break;
    case Zero::kAdd:
      for (size_t i = 0; i < n; ++i) {
        const float scaled = out[i] * by.scale;
        out[i] = scaled + by.zero;
      }
      break;
  }
}

// Whether a row is nothing but groups of nibbles, each with sixteen values of its own.
bool has_tables(const GroupedState& state) {
  const GroupedMatrix& m = state.matrix;
  return m.bits == 4 && m.group % 2 == 0 && m.columns % m.group == 0 && state.tensor_scale == 0 &&
         state.column_scales == 0 && !m.factor;
}

struct GroupScales {
  const float *scales, *zeros;  // of a row
  uint64_t stride;              // from group to group
  bool has_zeros;
  GroupScale at(uint64_t group) const {
    return {scales[to_size(group * stride)], has_zeros ? zeros[to_size(group * stride)] : 0.0f};
  }
};

uint64_t decode_by_groups(const GroupedMatrix& m, const DecodeTask& task, const GroupScales& by, DType to,
                          const std::byte* codes, std::byte* out) noexcept {
  uint8_t all[kNibbleValues];
  for (uint8_t c = 0; c < kNibbleValues; ++c) all[c] = c;
  NibbleGroups groups{.group_codes = m.group};
  if (m.codes == GroupedMatrix::Codes::kTable)
    for (uint32_t c = 0; c < kNibbleValues; ++c)
      if (!std::isfinite(m.table[c])) groups.finite &= ~(1u << c);
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < m.groups(); first += kNibbleGroupsAtOnce) {
    groups.groups = std::min(kNibbleGroupsAtOnce, m.groups() - first);
    groups.codes = codes + to_size(first * m.group / 2);
    float values[kNibbleGroupsAtOnce * kNibbleValues];
    for (uint64_t g = 0; g < groups.groups; ++g)
      decode_group(m, all, kNibbleValues, by.at(first + g), values + g * kNibbleValues);
    infinite += decode_nibble_groups(task.kernels, to, groups, values,
                                     out + to_size(first * m.group * dtype_bits(to) / 8));
  }
  return infinite;
}

uint64_t decode_grouped(const Weight& weight, const DecodeTask& task, ElementRange piece, DType dtype,
                        std::byte* out) noexcept {
  const auto& state = weight.as<GroupedState>();
  const GroupedMatrix& m = state.matrix;
  const RowRange rows = rows_of(piece, m.columns), tile = rows_of(task.tile, m.columns);
  const GroupedScratch scratch = grouped_scratch_of(state, tile.count, task.scratch);
  const uint64_t groups = m.groups();
  const auto columns = to_size(m.columns);
  const float tensor_scale = state.tensor_scale != 0 ? load_le<float>(task.bytes[state.tensor_scale]) : 1.0f;
  const uint64_t row_bytes = m.columns * dtype_bits(dtype) / 8;
  uint64_t infinite = 0;
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r, out += to_size(row_bytes)) {
    const std::byte* stored = task.bytes[0] + to_size((r - tile.first) * m.row_bytes());
    const uint64_t grid_row =
        m.order == Order::kRows ? r / m.rows_per_scale - tile.first / m.rows_per_scale : r - tile.first;
    const bool turned = m.order == Order::kTransposed;
    const uint64_t at = turned ? grid_row : grid_row * groups;
    const GroupScales by{scratch.scales + to_size(at), scratch.zeros + to_size(state.has_zeros() ? at : 0),
                         turned ? tile.count : 1, state.has_zeros()};
    if (has_tables(state)) {
      infinite += decode_by_groups(m, task, by, dtype, stored, out);
      continue;
    }
    float* const to = dtype == DType::F32 ? reinterpret_cast<float*>(out) : scratch.row;
    const uint8_t* codes = unpack_row(m, stored, scratch.codes);
    for (uint64_t g = 0; g < groups; ++g) {
      const uint64_t begin = g * m.group, count = std::min(m.group, m.columns - begin);
      decode_group(m, codes + to_size(begin), count, by.at(g), to + to_size(begin));
    }
    if (state.tensor_scale != 0)
      for (size_t i = 0; i < columns; ++i) to[i] = to[i] * tensor_scale;
    if (state.column_scales != 0)
      for (size_t i = 0; i < columns; ++i) to[i] = to[i] * scratch.columns[i];
    if (m.factor)
      for (size_t i = 0; i < columns; ++i) to[i] = to[i] * *m.factor;
    infinite += settle_row(task.kernels, m.table, codes, to, m.columns);
    if (dtype != DType::F32)
      infinite +=
          cast(task.kernels, DType::F32, dtype, reinterpret_cast<const std::byte*>(to), out, m.columns);
  }
  return infinite;
}

constexpr Decoder kGroupedDecoder{.reads = read_grouped,
                                  .decode = decode_grouped,
                                  .rounds = true,
                                  .scratch = grouped_scratch,
                                  .begin = widen_grids};

std::string_view order_word(Order order) {
  return order == Order::kRows ? "" : order == Order::kTransposed ? " transposed" : " swizzled";
}

}  // namespace

uint64_t settle_row(const KernelTable& kernels, const float* table, const uint8_t* codes, float* row,
                    uint64_t count) noexcept {
  constexpr uint32_t kInfinite = 0x7F800000;
  if (kernels.largest_magnitude(row, count) < kInfinite) return 0;
  uint64_t infinite = 0;
  for (size_t i = 0; i < to_size(count); ++i) {
    if (std::isnan(row[i])) row[i] = bit_cast<float>(0x7FC00000u);
    infinite += std::isinf(row[i]) && (table == nullptr || std::isfinite(table[codes[i]]));
  }
  return infinite;
}

uint64_t GroupedMatrix::scale_count() const {
  switch (order) {
    case Order::kTransposed:
      return rows * groups();
    case Order::kSwizzled:
      return ceil_div(rows, kTileRows) * swizzled_row_bytes(*this);
    default:
      return ceil_div(rows, rows_per_scale) * groups();
  }
}

Result<Weight> grouped_weight(const OpenContext& context, const QuantMatch& match, const GroupedMatrix& m,
                              const std::string& word, const Shape& shape, const GroupedParts& parts) {
  if (m.columns > kLargestUnitBytes / sizeof(float) || m.groups() > UINT32_MAX)
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                        "has rows of " + std::to_string(m.columns) + " elements, too long to be decoded");
  struct Need {
    std::string_view what;
    std::optional<TensorRef> part;
    std::optional<uint64_t> bytes;
  };
  const auto grid_bytes = [&m](DType dtype) { return checked_mul(m.scale_count(), dtype_bits(dtype) / 8); };
  for (const Need& need : {Need{"codes", parts.codes, checked_mul(m.rows, m.row_bytes())},
                           Need{"scales", parts.scales, grid_bytes(m.scale_dtype)},
                           Need{"zeros", parts.zeros, grid_bytes(m.zero_dtype)},
                           Need{"scales of the tensor", parts.tensor_scale, sizeof(float)},
                           Need{"scales of columns", parts.column_scales,
                                checked_mul(m.columns, dtype_bits(m.column_dtype) / 8)}}) {
    if (!need.part) continue;
    const TensorInfo& stored = context.checkpoint.info(*need.part);
    if (stored.bytes() == need.bytes) continue;
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has " + std::string(need.what) + " of shape " + shape_text(stored.shape) + " and " +
                            std::to_string(stored.bytes()) + " bytes, where " +
                            shape_text({m.rows, m.columns}) + " needs " +
                            std::to_string(need.bytes.value_or(UINT64_MAX)) + " bytes");
  }
  Weight weight;
  weight.decoder = &kGroupedDecoder;
  weight.word = word;
  weight.key = std::string(dtype_name(m.scale_dtype)) + std::string(order_word(m.order));
  if (m.zero != Zero::kNone)
    weight.key += (m.zero == Zero::kAdd ? " + " : " - ") + std::string(dtype_name(m.zero_dtype));
  if (parts.tensor_scale) weight.key += " scaled";
  if (parts.column_scales) weight.key += " columns " + std::string(dtype_name(m.column_dtype));
  for (const uint64_t n : {m.rows, m.columns, uint64_t{m.bits}, m.code_bytes, static_cast<uint64_t>(m.codes),
                           static_cast<uint64_t>(m.offset), m.group, m.rows_per_scale,
                           uint64_t{m.factor ? bit_cast<uint32_t>(*m.factor) : 0}})
    weight.key += ' ' + std::to_string(n);
  weight.shape = shape;
  weight.elements = m.rows * m.columns;
  weight.parts = {{"weight", parts.codes}, {"scales", parts.scales}};
  if (parts.zeros) weight.parts.push_back({"zeros", *parts.zeros});
  GroupedState state{m};
  if (parts.tensor_scale) {
    state.tensor_scale = weight.parts.size();
    weight.parts.push_back({"tensor_scale", *parts.tensor_scale});
  }
  if (parts.column_scales) {
    state.column_scales = weight.parts.size();
    weight.parts.push_back({"column_scales", *parts.column_scales});
  }
  weight.unit = std::max<uint64_t>(m.columns, 1);
  // A row of swizzled tiles holds the scales of 128 rows.
  if (m.order == Order::kSwizzled) weight.tile_unit = weight.unit * kTileRows;
  const uint64_t grid_bits =
      m.order == Order::kSwizzled
          ? swizzled_row_bytes(m) * 8 / kTileRows
          : m.groups() * (dtype_bits(m.scale_dtype) + (m.zero == Zero::kNone ? 0 : dtype_bits(m.zero_dtype)));
  weight.bits = static_cast<uint32_t>(ceil_div(m.row_bytes() * 8 + grid_bits, weight.unit));
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  weight.state = std::make_shared<const GroupedState>(state);
  return weight;
}

}  // namespace tftf
