// Decodes compressed-tensors: x = T(code) - T(zero point), w = x * scale, each operation rounded to T (spec
// compressed-tensors 2.3.6 to 2.8).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/ct/codes.h"
#include "quant/ct/layout.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kChunk = 512;
// A product of a code below 2^17 with a scale below this is finite.
constexpr float kSafeScale = 0x1p100f;

const Layout& layout_of(const Weight& weight) { return weight.as<Layout>(); }
uint64_t bytes_per(DType dtype) { return dtype_bits(dtype) / 8; }

// The first, or the last, row of words that holds a bit of the zero points of a row.
uint64_t zero_word_row(const Layout& l, uint64_t row, bool last) {
  const uint64_t r = row % l.rows;
  const uint64_t word = l.padded ? r / (32 / l.bits) : (r * l.bits + (last ? l.bits - 1 : 0)) / 32;
  return row / l.rows * l.zero_rows + word;
}

void read_layout(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const Layout& l = layout_of(weight);
  const RowRange rows = rows_of(tile, l.columns);
  uint32_t part = 0;
  if (l.sparse == Sparse::kNo) {
    ranges.push(rows_of_part(part++, rows, l.code_bytes));
  } else {
    const uint64_t size = bytes_per(l.code_dtype);
    if (l.sparse == Sparse::kBitmask)
      ranges.push({.part = part++, .row_bytes = l.stored * size});
    else
      ranges.push({.part = part++, .offset = tile.first / 2 * size, .row_bytes = tile.count / 2 * size});
    ranges.push(rows_of_part(part++, rows, ceil_div(l.columns, 8)));
    if (l.sparse == Sparse::kBitmask) ranges.push(rows_of_part(part++, rows, sizeof(int64_t)));
  }
  if (!l.scaled) return;
  const uint64_t last = rows.first + rows.count - 1, first_scale = l.grid_row(rows.first);
  const RowRange grid{first_scale, l.grid_row(last) - first_scale + 1};
  ranges.push(rows_of_part(part++, grid, l.grid_columns * bytes_per(l.scale_dtype)));
  if (l.global) {
    const uint64_t first = rows.first / l.rows;
    ranges.push(rows_of_part(part++, {first, last / l.rows - first + 1}, sizeof(float)));
  }
  if (l.zeros == Zeros::kPlain) {
    ranges.push(rows_of_part(part++, grid, l.grid_columns * bytes_per(l.zero_dtype)));
  } else if (l.zeros == Zeros::kPacked) {
    const uint64_t first = zero_word_row(l, rows.first, false);
    ranges.push(rows_of_part(part++, {first, zero_word_row(l, last, true) - first + 1},
                             l.grid_columns * sizeof(uint32_t)));
  }
  if (l.ordered) ranges.push({.part = part, .row_bytes = l.columns * sizeof(int32_t)});
}

// Scratch: whether the order of columns counts; how many columns each group has; where the stored elements of each row of a
// sparse tile begin.
struct LayoutScratch {
  uint64_t* ordered;
  uint32_t* members;
  uint64_t* begins;
  // What needs none of them comes without memory.
  LayoutScratch(const Layout& l, std::byte* scratch)
      : ordered(reinterpret_cast<uint64_t*>(scratch)), members(nullptr), begins(nullptr) {
    if (scratch == nullptr) return;
    members = reinterpret_cast<uint32_t*>(scratch + sizeof(uint64_t));
    begins = reinterpret_cast<uint64_t*>(scratch + sizeof(uint64_t) +
                                         to_size(l.ordered ? ceil_div(l.grid_columns, 2) * 8 : 0));
  }
};

uint64_t layout_scratch(const Weight& weight, uint64_t units) {
  const Layout& l = layout_of(weight);
  if (weight.elements == 0 || (!l.ordered && l.sparse == Sparse::kNo)) return 0;
  uint64_t bytes = sizeof(uint64_t);
  if (l.ordered) bytes += ceil_div(l.grid_columns, 2) * 8;
  if (l.sparse != Sparse::kNo) bytes += (ceil_div(units, l.columns) + 1) * sizeof(uint64_t);
  return bytes;
}

// Where the ranges of a tile lie.
struct TileParts {
  const std::byte *codes = nullptr, *mask = nullptr, *offsets = nullptr, *scales = nullptr, *global = nullptr,
                  *zeros = nullptr, *order = nullptr;
  TileParts(const Layout& l, const DecodeTask& task) {
    size_t at = 0;
    codes = task.bytes[at++];
    if (l.sparse != Sparse::kNo) mask = task.bytes[at++];
    if (l.sparse == Sparse::kBitmask) offsets = task.bytes[at++];
    if (!l.scaled) return;
    scales = task.bytes[at++];
    if (l.global) global = task.bytes[at++];
    if (l.zeros != Zeros::kNone) zeros = task.bytes[at++];
    if (l.ordered) order = task.bytes[at++];
  }
};

// Every group has its share of the columns, or a column has none (-1): then the order does not count.
bool check_order(const Layout& l, const std::byte* order, const LayoutScratch& scratch) {
  *scratch.ordered = 1;
  std::fill_n(scratch.members, to_size(l.grid_columns), 0u);
  for (uint64_t c = 0; c < l.columns; ++c)
    if (load_le<int32_t>(order + to_size(c * 4)) == -1) *scratch.ordered = 0;
  if (*scratch.ordered == 0) return true;
  for (uint64_t c = 0; c < l.columns; ++c) {
    const auto group = load_le<int32_t>(order + to_size(c * 4));
    if (group < 0 || static_cast<uint64_t>(group) >= l.grid_columns) return false;
    if (++scratch.members[to_size(static_cast<uint64_t>(group))] > l.scale_columns) return false;
  }
  return true;
}

bool begin_layout(const Weight& weight, const DecodeTask& task) noexcept {
  const Layout& l = layout_of(weight);
  const TileParts parts(l, task);
  const LayoutScratch scratch(l, task.scratch);
  if (l.ordered && !check_order(l, parts.order, scratch)) return false;
  if (l.sparse == Sparse::kNo) return true;
  const RowRange rows = rows_of(task.tile, l.columns);
  const uint64_t mask_bytes = ceil_div(l.columns, 8);
  uint64_t begin = 0;
  for (uint64_t r = 0; r < rows.count; ++r) {
    scratch.begins[to_size(r)] = begin;
    if (parts.offsets != nullptr && load_le<uint64_t>(parts.offsets + to_size(r * 8)) != begin) return false;
    begin += set_bits(parts.mask + to_size(r * mask_bytes), l.columns);
  }
  return begin == (l.sparse == Sparse::kBitmask ? l.stored : task.tile.count / 2);
}

// Rounds F32 values to T, in place.
void round_values(const KernelTable& kernels, DType to, float* values, uint64_t count) {
  if (to == DType::F32) return;
  uint16_t rounded[kChunk];
  auto* const as_values = reinterpret_cast<std::byte*>(values);
  auto* const as_rounded = reinterpret_cast<std::byte*>(rounded);
  cast(kernels, DType::F32, to, as_values, as_rounded, count);
  cast(kernels, to, DType::F32, as_rounded, as_values, count);
}

// One row: its scales and zero points.
struct RowScales {
  const Layout& l;
  const std::byte *scales = nullptr, *zeros = nullptr;
  float global = 1.0f;
  uint64_t zero_shift = 0;           // packed: of its field in the first of its words
  const std::byte* order = nullptr;  // null: columns in order

  RowScales(const Layout& layout, const DecodeTask& task, const TileParts& parts, uint64_t row) : l(layout) {
    if (!l.scaled) return;
    const uint64_t first = task.tile.first / l.columns, at = l.grid_row(row) - l.grid_row(first);
    scales = parts.scales + to_size(at * l.grid_columns * bytes_per(l.scale_dtype));
    if (l.global) global = load_le<float>(parts.global + to_size((row / l.rows - first / l.rows) * 4));
    if (l.zeros == Zeros::kPlain) {
      zeros = parts.zeros + to_size(at * l.grid_columns * bytes_per(l.zero_dtype));
    } else if (l.zeros == Zeros::kPacked) {
      const uint64_t words = zero_word_row(l, row, false) - zero_word_row(l, first, false);
      zeros = parts.zeros + to_size(words * l.grid_columns * 4);
      const uint64_t r = row % l.rows;
      zero_shift = l.padded ? r % (32 / l.bits) * l.bits : r * l.bits % 32;
    }
    if (l.ordered && *LayoutScratch(l, task.scratch).ordered != 0) order = parts.order;
  }

  float scale(uint64_t g) const {
    const std::byte* at = scales + to_size(g * bytes_per(l.scale_dtype));
    switch (l.scale_dtype) {
      case DType::F32:
        return load_le<float>(at);
      case DType::BF16:
        return f32_from_bf16(load_le<uint16_t>(at));
      case DType::F16:
        return f32_from_f16(load_le<uint16_t>(at));
      case DType::F8_E4M3:
        return f8_values(DType::F8_E4M3)[static_cast<uint8_t>(*at)] / global;
      default:  // a power of two; 255 overflows
        return static_cast<uint8_t>(*at) == 255 ? HUGE_VALF
                                                : f8_values(DType::F8_E8M0)[static_cast<uint8_t>(*at)];
    }
  }
  // Rounded to T; fields that are packed are exact.
  float zero(uint64_t g) const {
    if (zeros == nullptr) return 0.0f;
    if (l.zeros == Zeros::kPacked) {
      const std::byte* word = zeros + to_size(g * 4);
      uint64_t field = load_le<uint32_t>(word) >> zero_shift;
      if (zero_shift + l.bits > 32)
        field |= uint64_t{load_le<uint32_t>(word + to_size(l.grid_columns * 4))} << (32 - zero_shift);
      const uint64_t mask = (uint64_t{1} << l.bits) - 1;
      return static_cast<float>(static_cast<int32_t>(field & mask) - (1 << (l.bits - 1)));
    }
    float value = static_cast<float>(element_as_f64(l.zero_dtype, zeros, g));
    if (l.arithmetic == DType::BF16) value = f32_from_bf16(bf16_from_f32(value));
    if (l.arithmetic == DType::F16) value = f32_from_f16(f16_from_f32(value));
    return value;
  }
  uint64_t group(uint64_t column) const {
    if (order != nullptr) return static_cast<uint64_t>(load_le<int32_t>(order + to_size(column * 4)));
    return column / l.scale_columns;
  }
  // From this column on, the number of them under one scale.
  uint64_t run(uint64_t column) const {
    return order != nullptr ? 1 : l.scale_columns - column % l.scale_columns;
  }
};

// Whether differences and codes need a rounding of their own: small integers are exact in every T.
bool rounds_codes(const Layout& l) {
  const bool small = l.codes != Codes::kElements || l.code_dtype == DType::I8;
  const bool exact_zeros = l.zeros == Zeros::kNone || l.zeros == Zeros::kPacked || l.zero_dtype == DType::I8;
  if (l.codes == Codes::kElements && l.code_dtype == DType::F8_E4M3) return l.zeros != Zeros::kNone;
  return !small || !exact_zeros;
}

// FP8 under scales in order, without zero points: the kernel's own arithmetic. Returns how many became infinite.
uint64_t scale_f8(const KernelTable& kernels, const RowScales& row, uint64_t column, const std::byte* codes,
                  float* values, uint64_t count) {
  uint64_t infinite = 0;
  for (uint64_t at = 0; at < count;) {
    const uint64_t run = std::min(row.run(column + at), count - at);
    const float scale = row.scale(row.group(column + at));
    ScaledRun scaled{};
    scaled.to = DType::F32;
    scaled.cols = scaled.block_cols = scaled.count = run;
    scaled.scales = &scale;
    infinite += kernels.dequantize_f8(scaled, codes + to_size(at), reinterpret_cast<std::byte*>(values + at));
    at += run;
  }
  return infinite;
}

template <uint64_t kCount>
void multiply(float* x, float scale) {
  for (uint64_t i = 0; i < kCount; ++i) x[i] = x[i] * scale;
}

// `count` values that begin at `column`, from codes to products, in place. Returns how many became infinite.
uint64_t scale_values(const KernelTable& kernels, const RowScales& row, uint64_t column, float* values,
                      uint64_t count) {
  const Layout& l = row.l;
  const bool rounds = rounds_codes(l);
  if (rounds) round_values(kernels, l.arithmetic, values, count);
  uint64_t infinite = 0;
  const bool careful_codes = rounds || (l.codes == Codes::kElements && l.code_dtype != DType::I8);
  for (uint64_t at = 0; at < count;) {
    const uint64_t group = row.group(column + at);
    const uint64_t run = std::min(row.run(column + at), count - at);
    const float scale = row.scale(group), zero = row.zero(group);
    float* const x = values + at;
    if (row.zeros != nullptr) {
      for (uint64_t i = 0; i < run; ++i) x[i] = x[i] - zero;
      if (rounds) round_values(kernels, l.arithmetic, x, run);
    }
    if (!careful_codes && std::fabs(scale) < kSafeScale) {
      if (run == 16)
        multiply<16>(x, scale);
      else if (run == 32)
        multiply<32>(x, scale);
      else
        for (uint64_t i = 0; i < run; ++i) x[i] = x[i] * scale;
    } else {
      for (uint64_t i = 0; i < run; ++i) {
        const bool finite = std::isfinite(x[i]);
        const float y = x[i] * scale;
        infinite += finite && std::isinf(y);
        x[i] = y == y ? y : bit_cast<float>(uint32_t{0x7FC00000});
      }
    }
    at += run;
  }
  return infinite;
}

uint64_t write_values(const KernelTable& kernels, const Layout& l, float* values, uint64_t count, DType to,
                      std::byte* out) {
  auto* const from = reinterpret_cast<std::byte*>(values);
  if (l.result == to || l.result == DType::F32 || !l.scaled)
    return cast(kernels, DType::F32, to, from, out, count);
  uint64_t infinite = 0;
  uint16_t rounded[kChunk];
  auto* const as_rounded = reinterpret_cast<std::byte*>(rounded);
  infinite += cast(kernels, DType::F32, l.result, from, as_rounded, count);
  return infinite + cast(kernels, l.result, to, as_rounded, out, count);
}

uint64_t decode_layout(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                       std::byte* out) noexcept {
  const Layout& l = layout_of(weight);
  const TileParts parts(l, task);
  const RowRange rows = rows_of(piece, l.columns);
  const uint64_t first = task.tile.first / l.columns, size = bytes_per(to);
  // Sparse elements that have no scale are moved as they are.
  const bool moves = l.sparse != Sparse::kNo && !l.scaled && to == l.code_dtype;
  uint64_t infinite = 0;
  for (uint64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const RowScales scales(l, task, parts, r);
    uint64_t begin = l.sparse == Sparse::kNo ? 0 : LayoutScratch(l, task.scratch).begins[to_size(r - first)];
    const std::byte* const row = parts.codes + to_size((r - first) * l.code_bytes);
    const std::byte* const mask =
        parts.mask == nullptr ? nullptr : parts.mask + to_size((r - first) * ceil_div(l.columns, 8));
    const bool by_kernel = l.scaled && l.sparse == Sparse::kNo && l.codes == Codes::kElements &&
                           l.code_dtype == DType::F8_E4M3 && scales.zeros == nullptr &&
                           scales.order == nullptr;
    for (uint64_t c = 0; c < l.columns; c += kChunk) {
      const uint64_t count = std::min(kChunk, l.columns - c);
      alignas(16) float values[kChunk];
      if (l.sparse != Sparse::kNo) {
        const uint64_t element = bytes_per(l.code_dtype);
        alignas(16) std::byte spread[kChunk * 8];
        std::byte* const target = moves ? out : spread;
        begin += spread_stored(mask + to_size(c / 8), count, element, parts.codes + to_size(begin * element),
                               target);
        if (!moves)
          cast(task.kernels, l.code_dtype, DType::F32, spread, reinterpret_cast<std::byte*>(values), count);
      } else if (l.codes == Codes::kWords) {
        unpack_fields(row, l.bits, l.padded, c, count, values);
      } else if (l.codes == Codes::kPairs) {
        unpack_pairs(row + to_size(c / 2), count, values);
      } else if (by_kernel) {
        infinite += scale_f8(task.kernels, scales, c, row + to_size(c), values, count);
      } else {
        cast(task.kernels, l.code_dtype, DType::F32, row + to_size(c * bytes_per(l.code_dtype)),
             reinterpret_cast<std::byte*>(values), count);
      }
      if (!moves) {
        if (l.scaled && !by_kernel) infinite += scale_values(task.kernels, scales, c, values, count);
        infinite += write_values(task.kernels, l, values, count, to, out);
      }
      out += to_size(count * size);
    }
  }
  return infinite;
}

}  // namespace

const Decoder kLayoutDecoder{.reads = read_layout,
                             .decode = decode_layout,
                             .rounds = true,
                             .scratch = layout_scratch,
                             .begin = begin_layout};

}  // namespace tftf::ct
