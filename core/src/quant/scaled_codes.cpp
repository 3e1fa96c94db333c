// Reads and decodes rows of small codes with scales of groups.
#include "quant/scaled_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/nibble_groups.h"
#include "quant/rotation.h"
#include "quant/swizzle.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kSegment = 1024;  // columns at once on the stack, where no rotation asks for more

struct ScaledState {
  ScaledCodes spec;
  uint64_t code_bytes = 0;        // of a row
  uint64_t groups = 0;            // of a row
  uint64_t scale_size = 1;        // bytes of a scale
  float values[kNibbleValues]{};  // of the codes of four bits
};

bool has_nibbles(SmallCode code) {
  return code == SmallCode::kE2m1 || code == SmallCode::kE2m1High || code == SmallCode::kE0m4 ||
         code == SmallCode::kInt4 || code == SmallCode::kInt4RowPairs;
}

// The value of each byte of an unsigned E5M3, which no DType is (spec quant-layouts-2 0).
std::array<float, 256> e5m3_values() {
  std::array<float, 256> values{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const auto fraction = static_cast<float>(byte & 7) / 8;
    const uint32_t exponent = byte >> 3;
    values[byte] =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, static_cast<int>(exponent) - 15);
  }
  values[255] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

// Of scales of one byte: the value of each byte.
const float* scale_values(const ScaledCodes& spec) {
  static const std::array<float, 256> e5m3 = e5m3_values();
  return spec.e5m3 ? e5m3.data() : f8_values(spec.scale_dtype);
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

// Tables for all 256 scales of a byte are worth making for tiles of many elements with one global scale.
constexpr uint64_t kTableWorth = 16 * kScaleTableEntries;

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
// Scratch: the tables and, of swizzled scales, rows; or the scales of the tile's rows as F32, and the factors of columns.
uint64_t scaled_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const uint64_t rows = std::min(spec.rows, ceil_div(units, spec.columns));
  const uint64_t scale_rows = rows == 0 ? 0 : (rows - 1) / spec.rows_per_scale + 2;
  const uint64_t floats =
      (scale_rows * state.groups + (spec.column_scale ? spec.columns : 0)) * sizeof(float);
  if (!can_tabulate(state) || units < kTableWorth) return floats;
  return std::max(floats, kScaleTableBytes + (spec.swizzled ? rows * state.groups : 0));
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
  float global = 1.0f;
  if (spec.global == GlobalScale::kMultiply) global = global_of(state, task, rows.first);
  std::byte* const tables = task.scratch;
  make_scale_tables(task.kernels, state.values, scale_values(spec),
                    spec.global == GlobalScale::kMultiply ? &global : nullptr, tables);
  if (!spec.swizzled) return;
  std::byte* to = tables + kScaleTableBytes;
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
    const float* const values = scale_values(spec);
    for (uint64_t r = 0; r < rows.count; ++r) {
      const uint64_t row = rows.first + r;
      const std::byte* band = band_of(state, task, rows.first, row);
      float* to = scales + to_size(r * state.groups);
      for (uint64_t g = 0; g < state.groups; ++g)
        to[g] = values[static_cast<uint8_t>(band[to_size(swizzled_at(row % kSwizzleRows, g))])];
    }
  } else if (spec.e5m3) {
    for (uint64_t i = 0; i < scale_rows.count * state.groups; ++i)
      scales[to_size(i)] = scale_values(spec)[static_cast<uint8_t>(task.bytes[1][to_size(i)])];
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
    case SmallCode::kE0m4:
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

// A row of pairs of nibbles in whole groups: each group gets the table of its sixteen values, already rounded.
uint64_t decode_pairs(const ScaledRow& row, const DecodeTask& task, DType to, std::byte* out) {
  const ScaledCodes& spec = row.state.spec;
  const uint64_t groups = row.state.groups;
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < groups; first += kNibbleGroupsAtOnce) {
    const uint64_t count = std::min(kNibbleGroupsAtOnce, groups - first);
    float values[kNibbleGroupsAtOnce * kNibbleValues];
    for (uint64_t g = 0; g < count; ++g) {
      const float scale = row.scales[to_size(first + g)];
      float* table = values + g * kNibbleValues;
      for (uint64_t i = 0; i < kNibbleValues; ++i) table[i] = row.state.values[i] * scale;
      if (row.has_global)
        for (uint64_t i = 0; i < kNibbleValues; ++i) table[i] *= row.global;
    }
    infinite += decode_nibble_groups(task.kernels, to,
                                     {.codes = row.codes + to_size(first * spec.group / 2),
                                      .groups = count,
                                      .group_codes = spec.group,
                                      .high_first = spec.code == SmallCode::kE2m1High},
                                     values, out + to_size(first * spec.group * dtype_bits(to) / 8));
  }
  return infinite;
}

// Rows of a tile with tables.
uint64_t decode_by_table(const ScaledState& state, const DecodeTask& task, RowRange rows, DType to,
                         std::byte* out) {
  const ScaledCodes& spec = state.spec;
  const uint64_t skipped = rows.first - task.tile.first / spec.columns;
  const std::byte* scales =
      (spec.swizzled ? task.scratch + kScaleTableBytes : task.bytes[1]) + to_size(skipped * state.groups);
  return decode_by_scale_tables(task.kernels, to, task.scratch, reinterpret_cast<const uint8_t*>(scales),
                                {.codes = task.bytes[0] + to_size(skipped * state.code_bytes),
                                 .groups = rows.count * state.groups,
                                 .group_codes = spec.group,
                                 .high_first = spec.code == SmallCode::kE2m1High},
                                spec.group / 2, out);
}

uint64_t decode_scaled(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                       std::byte* out) noexcept {
  const auto& state = weight.as<ScaledState>();
  const ScaledCodes& spec = state.spec;
  const RowRange rows = rows_of(piece, spec.columns), tile = rows_of(task.tile, spec.columns);
  if (tabulates(state, task.tile)) return decode_by_table(state, task, rows, to, out);
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
    infinite += pairs ? decode_pairs(row, task, to, out) : decode_row(row, task, factors, to, out);
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
  for (uint32_t i = 0; i < kNibbleValues; ++i) {
    const auto low = static_cast<float>(i & 7);
    switch (spec.code) {
      case SmallCode::kInt4:
      case SmallCode::kInt4RowPairs:
        state->values[i] = i < 8 ? low : low - 8;
        break;
      case SmallCode::kE0m4:
        state->values[i] = (i < 8 ? 0.25f : -0.25f) * low;  // code 8 is -0
        break;
      default:
        state->values[i] = f4_values()[i];
    }
  }
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
