// Codes rows of a weight: quotients in the arithmetic of its dtype, rounded to codes (spec compressed-tensors 2.11, 2.12).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/ct/coding.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;

const Coding& coding_of(const Encoded& encoded) { return encoded.as<Coding>(); }

uint64_t scale_bytes(const Coding& c) { return dtype_bits(c.scale_dtype) / 8; }
uint64_t zero_bytes(const Coding& c) { return dtype_bits(c.zero_dtype) / 8; }
uint64_t packed_zero_words(const Coding& c, uint64_t rows) { return packed_words(rows, c.bits, c.padded); }

void write_coding(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const Coding& c = coding_of(encoded);
  const RowRange rows = rows_of(tile, c.columns);
  uint32_t part = 0;
  if (c.sparse == Sparse::kNo) {
    ranges.push(rows_of_part(part++, rows, c.code_row_bytes));
  } else {
    const uint64_t size = c.element_bytes();
    const bool any = c.sparse == Sparse::kBitmask;
    const uint64_t first = any ? c.begins[to_size(rows.first)] : tile.first / 2;
    const uint64_t count = any ? c.begins[to_size(rows.first + rows.count)] - first : tile.count / 2;
    ranges.push({.part = part++, .offset = first * size, .row_bytes = count * size});
    ranges.push(rows_of_part(part++, rows, mask_bytes(c)));
  }
  if (!c.writes_scales()) return;
  const RowRange grid{rows.first / c.scale_rows, ceil_div(rows.count, c.scale_rows)};
  ranges.push(rows_of_part(part++, grid, c.grid_columns * scale_bytes(c)));
  if (c.zeros == Zeros::kPlain && !c.rule.symmetric) {
    ranges.push(rows_of_part(part++, grid, c.grid_columns * zero_bytes(c)));
  } else if (c.zeros == Zeros::kPacked) {
    const RowRange words{packed_zero_words(c, rows.first), packed_zero_words(c, rows.count)};
    ranges.push(rows_of_part(part, words, c.grid_columns * 4));
  }
}

// A row as F32; per group of it the smallest and largest value, the scale and the zero point; codes of a row before they are
// packed, or of the rows of a unit before they are thinned out.
struct CodingScratch {
  float *row, *low, *high, *scales, *zeros;
  std::byte* codes;
  CodingScratch(const Coding& c, std::byte* scratch) {
    row = reinterpret_cast<float*>(scratch);
    low = row + to_size(ceil_div(c.columns, 16) * 16);
    high = low + to_size(c.grid_columns);
    scales = high + to_size(c.grid_columns);
    zeros = scales + to_size(c.grid_columns);
    codes = reinterpret_cast<std::byte*>(zeros + to_size(c.grid_columns));
  }
};

uint64_t coding_scratch(const Encoded& encoded, uint64_t) {
  const Coding& c = coding_of(encoded);
  const uint64_t coded = c.sparse == Sparse::kNo ? c.columns : c.columns * c.element_bytes() * 2;
  return (ceil_div(c.columns, 16) * 16 + c.grid_columns * 4) * sizeof(float) + coded;
}

const float* load_row(const Coding& c, const EncodeTask& task, const std::byte* in, uint64_t row,
                      float* out) {
  const std::byte* at = in + to_size(row * c.columns * dtype_bits(task.from) / 8);
  cast(task.kernels, task.from, DType::F32, at, reinterpret_cast<std::byte*>(out), c.columns);
  return out;
}

// Runs of columns under one scale: run(group, first, count).
template <class Run>
void each_group(const Coding& c, uint64_t width, Run run) {
  for (uint64_t at = 0; at < width;) {
    uint64_t group = at / c.scale_columns, count = std::min(c.scale_columns, width - at);
    if (!c.order.empty()) {
      group = c.order[to_size(at)];
      count = 1;
      while (at + count < width && c.order[to_size(at + count)] == group) ++count;
    }
    run(group, at, count);
    at += count;
  }
}

uint64_t count_infinite(const float* x, uint64_t count) {
  uint64_t lost = 0;
  for (uint64_t i = 0; i < count; ++i) lost += !std::isfinite(x[to_size(i)]);
  return lost;
}

void widen_range(const float* x, uint64_t count, float& low, float& high) {
  float least[8], most[8];
  std::fill_n(least, 8, low);
  std::fill_n(most, 8, high);
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (uint64_t k = 0; k < 8; ++k) {
      const float v = x[to_size(i + k)];
      least[k] = v < least[k] ? v : least[k];
      most[k] = v > most[k] ? v : most[k];
    }
  for (; i < count; ++i) {
    least[0] = std::min(least[0], x[to_size(i)]);
    most[0] = std::max(most[0], x[to_size(i)]);
  }
  low = *std::min_element(least, least + 8);
  high = *std::max_element(most, most + 8);
}

// Adds a row to the ranges of its groups; returns how many values are not finite.
uint64_t add_to_ranges(const Coding& c, const KernelTable& kernels, const float* row, float* low,
                       float* high) {
  uint64_t lost = 0;
  each_group(c, c.columns, [&](uint64_t group, uint64_t first, uint64_t count) {
    const float* x = row + to_size(first);
    const uint32_t largest = kernels.largest_magnitude(x, count);
    if (largest >= kInfinity) {
      lost += count_infinite(x, count);
    } else if (c.rule.symmetric) {
      high[to_size(group)] = std::max(high[to_size(group)], bit_cast<float>(largest));
    } else {
      widen_range(x, count, low[to_size(group)], high[to_size(group)]);
    }
  });
  return lost;
}

void store_number(DType dtype, float value, std::byte* out) {
  switch (dtype) {
    case DType::BF16:
      return store_le(out, bf16_from_f32(value));
    case DType::F16:
      return store_le(out, f16_from_f32(value));
    case DType::F8_E4M3:
      return store_le(out, f8_from_f32(DType::F8_E4M3, value, Overflow::kSaturate));
    case DType::I8:
      return store_le(out, static_cast<int8_t>(value));
    case DType::I16:
      return store_le(out, static_cast<int16_t>(value));
    case DType::U8:
      return store_le(out, exponent_of(value).value_or(0));
    default:
      return store_le(out, value);
  }
}

// A row of scales and zero points from the ranges, and their bytes. Returns how many groups have no scale.
uint64_t finish_scales(const Coding& c, float global, const CodingScratch& s, std::byte* scale_out,
                       std::byte* zero_out) {
  uint64_t lost = 0;
  for (uint64_t g = 0; g < c.grid_columns; ++g) {
    const size_t at = to_size(g);
    const float low = c.rule.symmetric ? -s.high[at] : s.low[at];
    ScaleAndZero found = scale_between(c.rule, low, s.high[at], global);
    if (!std::isfinite(found.scale)) {
      ++lost;
      found = {1.0f, 0.0f};
    }
    store_number(c.scale_dtype, found.scale, scale_out + to_size(g * scale_bytes(c)));
    if (zero_out != nullptr) store_number(c.zero_dtype, found.zero, zero_out + to_size(g * zero_bytes(c)));
    s.scales[at] = c.divides ? found.scale / global : found.scale;
    s.zeros[at] = found.zero;
  }
  return lost;
}

void pack_zeros(const Coding& c, const float* zeros, uint64_t row, std::byte* words) {
  const uint32_t mask = (1u << c.bits) - 1, fields = 32 / c.bits;
  const uint64_t word = c.padded ? row / fields : row * c.bits / 32;
  const auto shift = static_cast<uint32_t>(c.padded ? row % fields * c.bits : row * c.bits % 32);
  for (uint64_t g = 0; g < c.grid_columns; ++g) {
    const auto zero = static_cast<int32_t>(zeros[to_size(g)]);
    const uint32_t field = (static_cast<uint32_t>(zero) + (1u << (c.bits - 1))) & mask;
    std::byte* const at = words + to_size((word * c.grid_columns + g) * 4);
    store_le(at, load_le<uint32_t>(at) | field << shift);
    if (shift + c.bits <= 32) continue;
    std::byte* const next = at + to_size(c.grid_columns * 4);
    store_le(next, load_le<uint32_t>(next) | field >> (32 - shift));
  }
}

// One unit of rows of a piece.
struct UnitCoder {
  const Coding& c;
  const EncodeTask& task;
  const std::byte* in;  // of the piece
  uint64_t piece_row;   // first row of the piece, in the weight
  uint64_t tile_row;    // first row of the tile
  float global, one_scale, one_zero;
  CodingScratch s;

  std::byte* scales_of(uint64_t row) const {
    const uint64_t part = c.sparse == Sparse::kNo ? 1 : 2;
    return task.out[to_size(part)] +
           to_size((row - tile_row) / c.scale_rows * c.grid_columns * scale_bytes(c));
  }
  std::byte* zeros_of(uint64_t row) const {
    if (c.zeros != Zeros::kPlain || c.rule.symmetric) return nullptr;
    const uint64_t part = c.sparse == Sparse::kNo ? 2 : 3;
    return task.out[to_size(part)] +
           to_size((row - tile_row) / c.scale_rows * c.grid_columns * zero_bytes(c));
  }

  // Scales of the block row that begins at `row`.
  uint64_t compute(uint64_t row, uint64_t count) const {
    std::fill_n(s.low, to_size(c.grid_columns), 0.0f);
    std::fill_n(s.high, to_size(c.grid_columns), 0.0f);
    uint64_t lost = 0;
    for (uint64_t r = row; r < row + count; ++r)
      lost += add_to_ranges(c, task.kernels, load_row(c, task, in, r - piece_row, s.row), s.low, s.high);
    if (lost > 0) std::fill_n(s.high, to_size(c.grid_columns), 1.0f);
    return lost + finish_scales(c, global, s, scales_of(row), zeros_of(row));
  }

  // Codes of a row under scales that are there.
  uint64_t code(uint64_t row, const float* scales, const float* zeros, bool loaded, std::byte* out) const {
    if (c.target == Target::kValues) {
      const uint64_t bytes = c.columns * dtype_bits(task.from) / 8;
      std::memcpy(out, in + to_size((row - piece_row) * bytes), to_size(bytes));
      return 0;
    }
    if (!loaded) load_row(c, task, in, row - piece_row, s.row);
    uint64_t lost = 0;
    if (!c.computes && task.kernels.largest_magnitude(s.row, c.columns) >= kInfinity) {
      lost = count_infinite(s.row, c.columns);
      std::fill_n(s.row, to_size(c.columns), 0.0f);
    }
    if (c.target == Target::kWords && c.bits != 4 && c.bits != 8) {
      std::memset(out, 0, to_size(c.code_row_bytes));
      code_row(c, task.kernels, s.row, c.columns, scales, zeros, s.codes);
      pack_row(reinterpret_cast<const int8_t*>(s.codes), c.columns, c.bits, c.padded, out);
    } else if (c.target == Target::kWords) {
      code_row(c, task.kernels, s.row, c.columns, scales, zeros, s.codes);
      const auto* codes = reinterpret_cast<const int8_t*>(s.codes);
      const uint64_t used = ceil_div(c.columns * c.bits, 8);
      if (c.bits == 4)
        task.kernels.pack_nibbles(codes, c.columns, out);
      else
        for (uint64_t i = 0; i < used; ++i) out[to_size(i)] = s.codes[to_size(i)] ^ std::byte{0x80};
      std::memset(out + to_size(used), 0, to_size(c.code_row_bytes - used));
    } else {
      code_row(c, task.kernels, s.row, c.columns, scales, zeros, out);
    }
    return lost;
  }

  const float* given_scales(uint64_t row) const {
    return c.given.scales.data() + to_size(row / c.scale_rows * c.grid_columns);
  }
  const float* given_zeros(uint64_t row) const {
    return c.given.zeros.empty() ? nullptr
                                 : c.given.zeros.data() + to_size(row / c.scale_rows * c.grid_columns);
  }

  uint64_t run(uint64_t first, uint64_t count) const {
    uint64_t lost = 0;
    const bool packs_zeros = c.writes_scales() && c.zeros == Zeros::kPacked;
    std::byte* words = nullptr;
    if (packs_zeros) {
      words = task.out[2] + to_size(packed_zero_words(c, first - tile_row) * c.grid_columns * 4);
      std::memset(words, 0, to_size(packed_zero_words(c, count) * c.grid_columns * 4));
    }
    for (uint64_t r = first; r < first + count; ++r) {
      const float *scales = s.scales, *zeros = s.zeros;
      if (c.writes_scales()) {
        if (r % c.scale_rows == 0) lost += compute(r, std::min(c.scale_rows, first + count - r));
        if (packs_zeros) pack_zeros(c, s.zeros, r - first, words);
      } else if (c.one && c.computes) {
        scales = &one_scale;
        zeros = &one_zero;
      } else if (c.quantises) {
        scales = given_scales(r);
        zeros = given_zeros(r);
      }
      if (c.rule.symmetric) zeros = nullptr;
      lost += put(r, first, scales, zeros);
    }
    return lost;
  }

  uint64_t put(uint64_t r, uint64_t first, const float* scales, const float* zeros) const {
    const bool loaded = c.writes_scales() && c.scale_rows == 1;
    if (c.sparse == Sparse::kNo)
      return code(r, scales, zeros, loaded, task.out[0] + to_size((r - tile_row) * c.code_row_bytes));
    const uint64_t size = c.element_bytes();
    std::byte* const mask = task.out[1] + to_size((r - tile_row) * mask_bytes(c));
    std::memset(mask, 0, to_size(mask_bytes(c)));
    if (c.sparse == Sparse::kBitmask) {
      const uint64_t begin = c.begins[to_size(r)], tile_begin = c.begins[to_size(tile_row)];
      return code(r, scales, zeros, loaded, s.codes) +
             keep_nonzero(c, s.codes, c.begins[to_size(r + 1)] - begin,
                          task.out[0] + to_size((begin - tile_begin) * size), mask);
    }
    const uint64_t together = c.columns % 4 == 0 ? 1 : 2, place = (r - first) % together;
    uint64_t lost = code(r, scales, zeros, loaded, s.codes + to_size(place * c.columns * size));
    if (place + 1 < together) return lost;
    const uint64_t from = r + 1 - together;
    return lost + thin_out(c, s.codes, together * c.columns,
                           task.out[0] + to_size((from - tile_row) * c.columns / 2 * size),
                           task.out[1] + to_size((from - tile_row) * mask_bytes(c)));
  }
};

uint64_t encode_coding(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                       const std::byte* in) noexcept {
  const Coding& c = coding_of(encoded);
  const RowRange rows = rows_of(piece, c.columns);
  float one_scale = 1.0f, one_zero = 0.0f, global = c.global;
  if (c.measures) {
    one_scale = load_le<float>(task.measured);
    one_zero = load_le<float>(task.measured + 4);
    if (c.divides) global = load_le<float>(task.measured + kMeasuredGlobal);
  }
  const UnitCoder coder{c,
                        task,
                        in,
                        rows.first,
                        task.tile.first / c.columns,
                        global,
                        one_scale,
                        one_zero,
                        CodingScratch(c, task.scratch)};
  uint64_t lost = 0;
  const uint64_t unit = c.row_unit();
  for (uint64_t r = 0; r < rows.count; r += unit)
    lost += coder.run(rows.first + r, std::min(unit, rows.count - r));
  return lost;
}

void measure_coding(const Encoded& encoded, const EncodeTask& task, ElementRange piece, const std::byte* in,
                    Measure& into) noexcept {
  const Coding& c = coding_of(encoded);
  const RowRange rows = rows_of(piece, c.columns);
  const CodingScratch s(c, task.scratch);
  for (uint64_t r = 0; r < rows.count; ++r) {
    const float* row = load_row(c, task, in, r, s.row);
    const uint32_t largest = task.kernels.largest_magnitude(row, c.columns);
    if (largest >= kInfinity) {
      into.lost += count_infinite(row, c.columns);
    } else if (c.rule.symmetric) {
      into.largest = std::max<double>(into.largest, bit_cast<float>(largest));
    } else {
      float low = 0, high = 0;
      widen_range(row, c.columns, low, high);
      into.largest = std::max<double>(into.largest, high);
      into.second = std::max<double>(into.second, -low);
    }
  }
}

std::string measured_coding(const Encoded& encoded, const Measure& all) {
  const Coding& c = coding_of(encoded);
  std::byte table[kMeasuredGlobal + 4] = {};
  const auto high = static_cast<float>(all.largest);
  const float low = c.rule.symmetric ? -high : -static_cast<float>(all.second);
  if (c.divides) {
    store_le(table + kMeasuredGlobal, global_scale(c.type, high));
  } else {
    const ScaleAndZero found = scale_between(c.rule, low, high, 1.0f);
    store_le(table, found.scale);
    store_le(table + 4, found.zero);
    store_number(c.scale_dtype, found.scale, table + kMeasuredScale);
    store_number(c.zero_dtype, found.zero, table + kMeasuredZero);
  }
  return {reinterpret_cast<const char*>(table), sizeof table};
}

}  // namespace

void code_row(const Coding& c, const KernelTable& kernels, float* values, uint64_t width, const float* scales,
              const float* zeros, std::byte* out) noexcept {
  each_group(c, width, [&](uint64_t group, uint64_t first, uint64_t count) {
    const QuotientRun run{c.arithmetic, scales[to_size(group)],
                          zeros == nullptr ? 0.0f : zeros[to_size(group)], c.rule.range.lowest,
                          c.rule.range.highest};
    kernels.quotients(run, values + to_size(first), count, values + to_size(first));
  });
  switch (c.target) {
    case Target::kF8:
      return kernels.quantize_e4m3(values, width, 1.0f, out);
    case Target::kPairs:
      return kernels.quantize_e2m1(values, width, out);
    case Target::kI16:
      for (uint64_t i = 0; i < width; ++i)
        store_le(out + to_size(i * 2), static_cast<int16_t>(std::nearbyint(values[to_size(i)])));
      return;
    default:
      return kernels.quantize_i8(values, width, 1.0f, static_cast<int32_t>(c.rule.range.lowest),
                                 static_cast<int32_t>(c.rule.range.highest), reinterpret_cast<int8_t*>(out));
  }
}

void pack_row(const int8_t* codes, uint64_t count, uint32_t bits, bool padded, std::byte* words) noexcept {
  const uint32_t half = 1u << (bits - 1), mask = (1u << bits) - 1, fields = 32 / bits;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t field = (static_cast<uint32_t>(int32_t{codes[to_size(i)]}) + half) & mask;
    const uint64_t word = padded ? i / fields : i * bits / 32;
    const auto shift = static_cast<uint32_t>(padded ? i % fields * bits : i * bits % 32);
    std::byte* const at = words + to_size(word * 4);
    store_le(at, load_le<uint32_t>(at) | field << shift);
    if (shift + bits > 32) store_le(at + 4, load_le<uint32_t>(at + 4) | field >> (32 - shift));
  }
}

const Encoder kCodingEncoder{.writes = write_coding, .encode = encode_coding, .scratch = coding_scratch};
const Encoder kMeasuredCodingEncoder{.writes = write_coding,
                                     .encode = encode_coding,
                                     .scratch = coding_scratch,
                                     .measure = measure_coding,
                                     .measured = measured_coding};

}  // namespace tftf::ct
