// Reads and decodes rows of small codes with scales of groups.
#include "quant/scaled_codes.h"

#include <algorithm>
#include <cmath>

#include "quant/rotation.h"
#include "quant/swizzle.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kSegment = 1024;    // columns at once on the stack, where no rotation asks for more
constexpr uint64_t kGroupsAtOnce = 8;  // whose sixteen values each make a table
constexpr uint64_t kNibbles = 16;

struct ScaledState {
  ScaledCodes spec;
  uint64_t code_bytes = 0;   // of a row
  uint64_t groups = 0;       // of a row
  uint64_t scale_size = 1;   // bytes of a scale
  float values[kNibbles]{};  // of the codes of four bits
};

bool has_nibbles(SmallCode code) {
  return code == SmallCode::kE2m1 || code == SmallCode::kE2m1High || code == SmallCode::kInt4 ||
         code == SmallCode::kInt4RowPairs;
}

float canonical_nan(float x) { return x == x ? x : bit_cast<float>(0x7FC00000u); }

// Rows of scales that a tile's rows need.
RowRange scale_rows_of(const ScaledCodes& spec, RowRange rows) {
  const uint64_t first = rows.first / spec.rows_per_scale;
  return {first, (rows.first + rows.count - 1) / spec.rows_per_scale - first + 1};
}

void read_scaled(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const RowRange rows = rows_of(tile, spec.columns);
  if (spec.code == SmallCode::kInt4RowPairs) {
    const uint64_t first = rows.first / 2;
    ranges.push(rows_of_part(0, {first, (rows.first + rows.count - 1) / 2 - first + 1}, state.code_bytes));
  } else {
    ranges.push(rows_of_part(0, rows, state.code_bytes));
  }
  if (spec.swizzled) {
    const uint64_t first = rows.first / kSwizzleRows;
    ranges.push(rows_of_part(1, {first, (rows.first + rows.count - 1) / kSwizzleRows - first + 1},
                             swizzled_band(state.groups)));
  } else {
    ranges.push(rows_of_part(1, scale_rows_of(spec, rows), state.groups * state.scale_size));
  }
  uint32_t part = 2;
  if (spec.global != GlobalScale::kNone) {
    const uint64_t first = rows.first / spec.rows_per_global;
    const uint64_t last = (rows.first + rows.count - 1) / spec.rows_per_global;
    ranges.push(rows_of_part(part++, {first, last - first + 1}, sizeof(float)));
  }
  if (spec.column_scale)
    ranges.push({.part = part, .row_bytes = spec.columns * dtype_bits(*spec.column_scale) / 8});
}

// Values of all sixteen codes under all 256 scales of a byte: worth making for tiles of many elements with one global
// scale. In each dtype of a result, one behind the other.
constexpr uint64_t kTableEntries = 256 * kNibbles;
constexpr uint64_t kTableBytes = kTableEntries * (4 + 2 + 2);
constexpr uint64_t kTableWorth = 16 * kTableEntries;

bool can_tabulate(const ScaledState& state) {
  const ScaledCodes& spec = state.spec;
  return has_nibbles(spec.code) && spec.code != SmallCode::kInt4RowPairs && !spec.column_scale &&
         spec.rotation == 0 && spec.columns % spec.group == 0 && spec.group % 2 == 0 &&
         state.scale_size == 1 && spec.rows_per_scale == 1 && spec.global != GlobalScale::kDivide;
}
bool tabulates(const ScaledState& state, ElementRange tile) {
  const ScaledCodes& spec = state.spec;
  if (!can_tabulate(state) || tile.count < kTableWorth) return false;
  if (spec.global == GlobalScale::kNone) return true;
  const RowRange rows = rows_of(tile, spec.columns);
  return rows.first / spec.rows_per_global == (rows.first + rows.count - 1) / spec.rows_per_global;
}
const std::byte* table_of(const std::byte* tables, DType to) {
  return tables + (to == DType::F32 ? 0 : to == DType::BF16 ? 4 * kTableEntries : 6 * kTableEntries);
}

// Scratch: the tables and, of swizzled scales, rows; or the scales of the tile's rows as F32, and the factors of columns.
uint64_t scaled_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const uint64_t rows = std::min(spec.rows, ceil_div(units, spec.columns));
  const uint64_t scale_rows = rows == 0 ? 0 : (rows - 1) / spec.rows_per_scale + 2;
  const uint64_t floats =
      (scale_rows * state.groups + (spec.column_scale ? spec.columns : 0)) * sizeof(float);
  if (!can_tabulate(state) || units < kTableWorth) return floats;
  return std::max(floats, kTableBytes + (spec.swizzled ? rows * state.groups : 0));
}

uint64_t factors_at(const ScaledState& state, const DecodeTask& task) {
  return scale_rows_of(state.spec, rows_of(task.tile, state.spec.columns)).count * state.groups;
}

float global_of(const ScaledState& state, const DecodeTask& task, uint64_t row) {
  const uint64_t per = state.spec.rows_per_global;
  const uint64_t at = row / per - task.tile.first / state.spec.columns / per;
  return load_le<float>(task.bytes[2] + to_size(at * sizeof(float)));
}

// The scales of row `row` in a tile that begins at row `first`, where they are swizzled.
const std::byte* band_of(const ScaledState& state, const DecodeTask& task, uint64_t first, uint64_t row) {
  const uint64_t band = row / kSwizzleRows - first / kSwizzleRows;
  return task.bytes[1] + to_size(band * swizzled_band(state.groups));
}

void make_tables(const ScaledState& state, const DecodeTask& task, RowRange rows) {
  const ScaledCodes& spec = state.spec;
  const float* const scales = f8_values(spec.scale_dtype);
  auto* values = reinterpret_cast<float*>(task.scratch);
  for (size_t s = 0; s < 256; ++s)
    for (size_t i = 0; i < kNibbles; ++i) values[s * kNibbles + i] = state.values[i] * scales[s];
  if (spec.global == GlobalScale::kMultiply) {
    const float global = global_of(state, task, rows.first);
    for (size_t i = 0; i < kTableEntries; ++i) values[i] *= global;
  }
  for (size_t i = 0; i < kTableEntries; ++i) values[i] = canonical_nan(values[i]);
  std::byte* tables = task.scratch;
  task.kernels.f32_to_bf16(tables, tables + 4 * kTableEntries, kTableEntries);
  task.kernels.f32_to_f16(tables, tables + 6 * kTableEntries, kTableEntries);
  if (!spec.swizzled) return;
  std::byte* to = tables + kTableBytes;
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const std::byte* band = band_of(state, task, rows.first, r);
    for (uint64_t g = 0; g < state.groups; ++g) *to++ = band[to_size(swizzled_at(r % kSwizzleRows, g))];
  }
}

bool begin_scaled(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const RowRange rows = rows_of(task.tile, spec.columns);
  const RowRange scale_rows = scale_rows_of(spec, rows);
  auto* scales = reinterpret_cast<float*>(task.scratch);
  if (tabulates(state, task.tile)) {
    make_tables(state, task, rows);
    return true;
  }
  if (spec.swizzled) {
    const float* const values = f8_values(spec.scale_dtype);
    for (uint64_t r = 0; r < rows.count; ++r) {
      const uint64_t row = rows.first + r;
      const std::byte* band = band_of(state, task, rows.first, row);
      float* to = scales + to_size(r * state.groups);
      for (uint64_t g = 0; g < state.groups; ++g)
        to[g] = values[static_cast<uint8_t>(band[to_size(swizzled_at(row % kSwizzleRows, g))])];
    }
  } else {
    cast(task.kernels, spec.scale_dtype, DType::F32, task.bytes[1], task.scratch,
         scale_rows.count * state.groups);
  }
  if (spec.global == GlobalScale::kDivide) {
    for (uint64_t r = 0; r < scale_rows.count; ++r) {
      const float global = global_of(state, task, (scale_rows.first + r) * spec.rows_per_scale);
      float* row = scales + to_size(r * state.groups);
      for (uint64_t g = 0; g < state.groups; ++g) row[g] = row[g] / global;
    }
  }
  if (spec.column_scale) {
    const uint32_t part = spec.global == GlobalScale::kNone ? 2 : 3;
    cast(task.kernels, *spec.column_scale, DType::F32, task.bytes[part],
         task.scratch + to_size(factors_at(state, task) * sizeof(float)), spec.columns);
  }
  return true;
}

// A row in hand.
struct ScaledRow {
  const ScaledState& state;
  const std::byte* codes;
  const float* scales;
  uint32_t shift = 0;  // kInt4RowPairs: where this row's nibbles stand
  bool has_global = false;
  float global = 1.0f;
};

uint32_t code_at(const ScaledRow& row, uint64_t column) {
  const auto byte = [&row](uint64_t i) { return static_cast<uint32_t>(row.codes[to_size(i)]); };
  switch (row.state.spec.code) {
    case SmallCode::kE2m1:
    case SmallCode::kInt4:
      return byte(column / 2) >> (column % 2 * 4) & 15;
    case SmallCode::kE2m1High:
      return byte(column / 2) >> (4 - column % 2 * 4) & 15;
    case SmallCode::kInt4RowPairs:
      return byte(column) >> row.shift & 15;
    case SmallCode::kE2m3:
    case SmallCode::kE3m2: {
      const uint64_t at = column / 4 * 3;
      const uint32_t word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16;
      return word >> (column % 4 * 6) & 63;
    }
    default:
      return byte(column);
  }
}

// Columns [first, first + count) of a row as products with their scales, and the global one.
void scale_codes(const ScaledRow& row, uint64_t first, uint64_t count, float* out) {
  const ScaledCodes& spec = row.state.spec;
  const float* values = row.state.values;
  switch (spec.code) {
    case SmallCode::kE4m3:
      values = f8_values(DType::F8_E4M3);
      break;
    case SmallCode::kE5m2:
      values = f8_values(DType::F8_E5M2);
      break;
    case SmallCode::kE2m3:
      values = f6_values(DType::F6_E2M3);
      break;
    case SmallCode::kE3m2:
      values = f6_values(DType::F6_E3M2);
      break;
    default:
      break;
  }
  for (uint64_t done = 0; done < count;) {
    const uint64_t column = first + done, group = column / spec.group;
    const uint64_t length = std::min(count - done, (group + 1) * spec.group - column);
    const float scale = row.scales[to_size(group)];
    if (spec.code == SmallCode::kInt8) {
      const auto* codes = reinterpret_cast<const int8_t*>(row.codes) + to_size(column);
      for (uint64_t i = 0; i < length; ++i) out[done + i] = static_cast<float>(codes[i]) * scale;
    } else {
      for (uint64_t i = 0; i < length; ++i) out[done + i] = values[code_at(row, column + i)] * scale;
    }
    done += length;
  }
  if (row.has_global)
    for (uint64_t i = 0; i < count; ++i) out[i] *= row.global;
}

uint64_t count_infinite(const float* values, uint64_t count) {
  uint64_t infinite = 0;
  for (uint64_t i = 0; i < count; ++i) infinite += std::isinf(values[i]) ? 1 : 0;
  return infinite;
}

uint64_t round_to(const KernelTable& kernels, DType to, const float* values, uint64_t count, std::byte* out) {
  const auto* from = reinterpret_cast<const std::byte*>(values);
  if (to == DType::BF16) return kernels.f32_to_bf16(from, out, count);
  if (to == DType::F16) return kernels.f32_to_f16(from, out, count);
  std::memcpy(out, values, to_size(count * sizeof(float)));
  return 0;
}

uint64_t decode_row(const ScaledRow& row, const DecodeTask& task, const float* factors, DType to,
                    std::byte* out) {
  const ScaledCodes& spec = row.state.spec;
  const uint64_t size = dtype_bits(to) / 8;
  float segment[kLargestRotation];
  const uint64_t step = spec.rotation != 0 ? spec.rotation : kSegment;
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < spec.columns; first += step) {
    const uint64_t count = std::min(step, spec.columns - first);
    scale_codes(row, first, count, segment);
    if (spec.rotation != 0) rotate_block(segment, spec.rotation);
    if (factors != nullptr)
      for (uint64_t i = 0; i < count; ++i) segment[i] *= factors[to_size(first + i)];
    for (uint64_t i = 0; i < count; ++i) segment[i] = canonical_nan(segment[i]);
    if (spec.code != SmallCode::kE5m2) infinite += count_infinite(segment, count);  // it has infinite codes
    infinite += round_to(task.kernels, to, segment, count, out + to_size(first * size));
  }
  return infinite;
}

// The values of the codes in `bytes` bytes from a table of sixteen.
template <class T, bool kHighFirst>
void look_up(const T* table, const std::byte* codes, uint64_t bytes, std::byte* out) {
  for (uint64_t i = 0; i < bytes; ++i) {
    const auto pair = static_cast<uint32_t>(codes[i]);
    const T first = table[kHighFirst ? pair >> 4 : pair & 15];
    const T second = table[kHighFirst ? pair & 15 : pair >> 4];
    if constexpr (sizeof(T) == 2) {
      store_le(out + 4 * i, uint32_t{first} | uint32_t{second} << 16);  // one store for both
    } else {
      store_le(out + 8 * i, first);
      store_le(out + 8 * i + 4, second);
    }
  }
}

// A row of pairs of nibbles in whole groups: each group gets the table of its sixteen values, already rounded.
template <class T, bool kHighFirst>
uint64_t decode_pairs(const ScaledRow& row, const DecodeTask& task, DType to, std::byte* out) {
  const ScaledCodes& spec = row.state.spec;
  const uint64_t bytes = spec.group / 2, groups = row.state.groups;
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < groups; first += kGroupsAtOnce) {
    const uint64_t count = std::min(kGroupsAtOnce, groups - first);
    float values[kGroupsAtOnce * kNibbles];
    float largest = 0;
    for (uint64_t g = 0; g < count; ++g) {
      const float scale = row.scales[to_size(first + g)];
      float* table = values + g * kNibbles;
      for (uint64_t i = 0; i < kNibbles; ++i) table[i] = row.state.values[i] * scale;
      if (row.has_global)
        for (uint64_t i = 0; i < kNibbles; ++i) table[i] *= row.global;
      for (uint64_t i = 0; i < kNibbles; ++i) table[i] = canonical_nan(table[i]);
      largest = std::max(largest, std::max(std::fabs(table[7]), std::fabs(table[8])));
    }
    T tables[kGroupsAtOnce * kNibbles];
    const bool overflows =
        round_to(task.kernels, to, values, count * kNibbles, reinterpret_cast<std::byte*>(tables)) > 0 ||
        std::isinf(largest);
    for (uint64_t g = 0; g < count; ++g) {
      const std::byte* codes = row.codes + to_size((first + g) * bytes);
      look_up<T, kHighFirst>(tables + g * kNibbles, codes, bytes,
                             out + to_size((first + g) * spec.group * sizeof(T)));
    }
    if (!overflows) continue;
    for (uint64_t g = first; g < first + count; ++g)
      for (uint64_t c = g * spec.group; c < (g + 1) * spec.group; ++c) {
        std::byte rounded[sizeof(float)];
        const float value = values[to_size((g - first) * kNibbles + code_at(row, c))];
        infinite += std::isinf(value) ? 1 : round_to(task.kernels, to, &value, 1, rounded);
      }
  }
  return infinite;
}

// Rows of a tile with tables.
template <class T, bool kHighFirst>
uint64_t decode_by_table(const ScaledState& state, const DecodeTask& task, RowRange rows, DType to,
                         std::byte* out) {
  const ScaledCodes& spec = state.spec;
  const uint64_t bytes = spec.group / 2, skipped = rows.first - task.tile.first / spec.columns;
  const T* const table = reinterpret_cast<const T*>(table_of(task.scratch, to));
  const std::byte* codes = task.bytes[0] + to_size(skipped * state.code_bytes);
  const std::byte* scales =
      (spec.swizzled ? task.scratch + kTableBytes : task.bytes[1]) + to_size(skipped * state.groups);
  const auto infinity = static_cast<T>(to == DType::F32    ? 0x7F800000u
                                       : to == DType::BF16 ? 0x7F80u
                                                           : 0x7C00u);
  const T magnitude = static_cast<T>(static_cast<T>(~T{0}) >> 1);
  uint64_t infinite = 0;
  for (uint64_t g = 0; g < rows.count * state.groups; ++g) {
    const T* const values = table + static_cast<size_t>(scales[to_size(g)]) * kNibbles;
    look_up<T, kHighFirst>(values, codes, bytes, out);
    // The largest magnitude is that of code 7 (E2M1) or 8 (int4).
    if ((values[7] & magnitude) == infinity || (values[8] & magnitude) == infinity) {
      for (uint64_t i = 0; i < spec.group; ++i) {
        const auto pair = static_cast<uint32_t>(codes[to_size(i / 2)]);
        infinite += (values[pair >> (i % 2 * 4) & 15] & magnitude) == infinity ? 1 : 0;
      }
    }
    codes += bytes;
    out += to_size(spec.group * sizeof(T));
  }
  return infinite;
}

uint64_t decode_scaled(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                       std::byte* out) noexcept {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const RowRange rows = rows_of(piece, spec.columns), tile = rows_of(task.tile, spec.columns);
  const bool high = spec.code == SmallCode::kE2m1High;
  if (tabulates(state, task.tile)) {
    if (to == DType::F32)
      return high ? decode_by_table<uint32_t, true>(state, task, rows, to, out)
                  : decode_by_table<uint32_t, false>(state, task, rows, to, out);
    return high ? decode_by_table<uint16_t, true>(state, task, rows, to, out)
                : decode_by_table<uint16_t, false>(state, task, rows, to, out);
  }
  const RowRange scale_rows = scale_rows_of(spec, tile);
  const auto* scales = reinterpret_cast<const float*>(task.scratch);
  const float* factors = spec.column_scale ? scales + to_size(factors_at(state, task)) : nullptr;
  const bool pairs = spec.code != SmallCode::kInt4RowPairs && has_nibbles(spec.code) && factors == nullptr &&
                     spec.rotation == 0 && spec.columns % spec.group == 0 && spec.group % 2 == 0;
  const uint64_t row_bytes = spec.columns * dtype_bits(to) / 8;
  uint64_t infinite = 0;
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    ScaledRow row{.state = state, .codes = nullptr, .scales = nullptr};
    const bool shared = spec.code == SmallCode::kInt4RowPairs;
    row.codes =
        task.bytes[0] + to_size((shared ? r / 2 - tile.first / 2 : r - tile.first) * state.code_bytes);
    row.shift = shared ? static_cast<uint32_t>(r % 2 * 4) : 0;
    row.scales = scales + to_size((r / spec.rows_per_scale - scale_rows.first) * state.groups);
    row.has_global = spec.global == GlobalScale::kMultiply;
    if (row.has_global) row.global = global_of(state, task, r);
    if (!pairs) {
      infinite += decode_row(row, task, factors, to, out);
    } else if (to == DType::F32) {
      infinite += high ? decode_pairs<float, true>(row, task, to, out)
                       : decode_pairs<float, false>(row, task, to, out);
    } else {
      infinite += high ? decode_pairs<uint16_t, true>(row, task, to, out)
                       : decode_pairs<uint16_t, false>(row, task, to, out);
    }
    out += to_size(row_bytes);
  }
  return infinite;
}

constexpr Decoder kScaledDecoder{.reads = read_scaled,
                                 .decode = decode_scaled,
                                 .rounds = true,
                                 .scratch = scaled_scratch,
                                 .begin = begin_scaled};

}  // namespace

Weight scaled_codes_weight(const ScaledCodes& spec, std::string_view word, const Shape& shape,
                           const ScaledParts& parts) {
  auto state = std::make_shared<ScaledState>();
  state->spec = spec;
  if (spec.scale_dtype == DType::U8) state->spec.scale_dtype = spec.byte_scale;
  state->code_bytes = code_row_bytes(spec.code, spec.columns).value_or(0);
  state->groups = ceil_div(spec.columns, spec.group);
  state->scale_size = dtype_bits(spec.scale_dtype) / 8;
  const bool integers = spec.code == SmallCode::kInt4 || spec.code == SmallCode::kInt4RowPairs;
  for (size_t i = 0; i < kNibbles; ++i)
    state->values[i] = integers ? static_cast<float>(i < 8 ? int(i) : int(i) - 16) : f4_values()[i];
  Weight weight;
  weight.decoder = &kScaledDecoder;
  weight.word = word;
  weight.key = scaled_codes_key(spec);
  weight.shape = shape;
  weight.elements = spec.rows * spec.columns;
  weight.parts = {{"weight", parts.codes}, {"scales", parts.scales}};
  if (parts.global) weight.parts.push_back({"global scale", *parts.global});
  if (parts.column_scale) weight.parts.push_back({"pre_quant_scale", *parts.column_scale});
  weight.unit = spec.columns;
  const uint64_t row_bytes =
      (spec.code == SmallCode::kInt4RowPairs ? ceil_div(state->code_bytes, 2) : state->code_bytes) +
      state->groups * state->scale_size;
  weight.bits = static_cast<uint32_t>(
      std::min<uint64_t>(UINT32_MAX, ceil_div(row_bytes * 8, std::max<uint64_t>(spec.columns, 1))));
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  weight.state = std::move(state);
  return weight;
}

}  // namespace tftf
