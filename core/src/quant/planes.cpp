// Fields of words to values, a byte each, and back.
#include "quant/planes.h"

#include <algorithm>

#include "quant/bit_fields.h"
#include "quant/swizzle.h"

namespace tftf {
namespace {

uint32_t stored_mask(const PlaneForm& form) { return (1u << form.bits) - 1; }

// Calls at(row, column, bit) for each value: the bit where its field begins, counted from the first of the rows' bytes.
template <class At>
void each_place_down(const PlaneForm& form, RowRange rows, At at) {
  for (uint64_t r = 0; r < rows.count; r += form.row_unit) {
    const uint64_t unit = r / form.row_unit * form.unit_bytes;
    for (uint64_t j = 0; j < std::min(form.row_unit, rows.count - r); ++j) at(r + j, unit, j * form.bits);
  }
}

// Values of a row lie in word `bit / 32` of each column's words, which are a row of words apart; some cross into the next.
void unpack_down(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  const uint32_t mask = stored_mask(form);
  const uint64_t word_row = form.columns * 4;
  each_place_down(form, rows, [&](uint64_t row, uint64_t unit, uint64_t bit) {
    const std::byte* words = in + to_size(unit + bit / 32 * word_row);
    const auto from = static_cast<uint32_t>(bit % 32);
    const bool crosses = from + form.bits > 32;
    uint8_t* out = values + to_size(row * form.columns);
    for (uint64_t c = 0; c < form.columns; ++c) {
      uint32_t field = load_word(words + to_size(c * 4)) >> from;
      if (crosses) field |= load_word(words + to_size(word_row + c * 4)) << (32 - from);
      out[to_size(c)] = static_cast<uint8_t>((field - form.shift) & mask);
    }
  });
}

void pack_down(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  const uint32_t mask = stored_mask(form);
  const uint64_t word_row = form.columns * 4;
  std::memset(out, 0, to_size(ceil_div(rows.count, form.row_unit) * form.unit_bytes));
  each_place_down(form, rows, [&](uint64_t row, uint64_t unit, uint64_t bit) {
    std::byte* words = out + to_size(unit + bit / 32 * word_row);
    const auto to = static_cast<uint32_t>(bit % 32);
    const bool crosses = to + form.bits > 32;
    const uint8_t* from = values + to_size(row * form.columns);
    for (uint64_t c = 0; c < form.columns; ++c) {
      const uint32_t field = (from[to_size(c)] + form.shift) & mask;
      std::byte* word = words + to_size(c * 4);
      store_word(word, load_word(word) | field << to);
      if (crosses)
        store_word(word + to_size(word_row), load_word(word + to_size(word_row)) | field >> (32 - to));
    }
  });
}

// Words of whole fields.
template <uint32_t kBits, bool kAwq>
void unpack_words(const PlaneForm& form, const std::byte* in, uint8_t* values) {
  constexpr uint32_t kFields = 32 / kBits, kMask = (1u << kBits) - 1;
  for (uint64_t c = 0; c < form.columns; c += kFields) {
    const uint32_t word = load_word(in + to_size(c / kFields * 4));
    for (uint32_t f = 0; f < kFields; ++f)
      values[to_size(c) + (kAwq ? kAwqOrder[f] : f)] =
          static_cast<uint8_t>(((word >> f * kBits) - form.shift) & kMask);
  }
}

template <uint32_t kBits, bool kAwq>
void pack_words(const PlaneForm& form, const uint8_t* values, std::byte* out) {
  constexpr uint32_t kFields = 32 / kBits, kMask = (1u << kBits) - 1;
  for (uint64_t c = 0; c < form.columns; c += kFields) {
    uint32_t word = 0;
    for (uint32_t f = 0; f < kFields; ++f)
      word |= ((values[to_size(c) + (kAwq ? kAwqOrder[f] : f)] + form.shift) & kMask) << f * kBits;
    store_word(out + to_size(c / kFields * 4), word);
  }
}

// Fields that cross words.
void unpack_row_of_3(const PlaneForm& form, const std::byte* in, uint8_t* values) {
  for (uint64_t c = 0; c < form.columns; ++c)
    values[to_size(c)] = static_cast<uint8_t>((field_at(in, c * 3, 3) - form.shift) & 7);
}

void pack_row_of_3(const PlaneForm& form, const uint8_t* values, std::byte* out) {
  std::memset(out, 0, to_size(form.unit_bytes));
  for (uint64_t c = 0; c < form.columns; ++c) {
    const uint32_t field = (values[to_size(c)] + form.shift) & 7;
    std::byte* word = out + to_size(c * 3 / 32 * 4);
    const auto to = static_cast<uint32_t>(c * 3 % 32);
    store_word(word, load_word(word) | field << to);
    if (to > 29) store_word(word + 4, load_word(word + 4) | field >> (32 - to));
  }
}

template <bool kAwq>
void unpack_along(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  const auto row = form.bits == 2   ? unpack_words<2, false>
                   : form.bits == 3 ? unpack_row_of_3
                   : form.bits == 4 ? unpack_words<4, kAwq>
                                    : unpack_words<8, false>;
  for (uint64_t r = 0; r < rows.count; ++r)
    row(form, in + to_size(r * form.unit_bytes), values + to_size(r * form.columns));
}

template <bool kAwq>
void pack_along(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  const auto row = form.bits == 2   ? pack_words<2, false>
                   : form.bits == 3 ? pack_row_of_3
                   : form.bits == 4 ? pack_words<4, kAwq>
                                    : pack_words<8, false>;
  for (uint64_t r = 0; r < rows.count; ++r)
    row(form, values + to_size(r * form.columns), out + to_size(r * form.unit_bytes));
}

template <bool kHighFirst>
void unpack_nibble_rows(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  for (uint64_t i = 0; i < rows.count * form.unit_bytes; ++i) {
    const auto pair = static_cast<uint8_t>(in[to_size(i)]);
    const auto low = static_cast<uint8_t>(pair & 15), high = static_cast<uint8_t>(pair >> 4);
    values[to_size(2 * i)] = kHighFirst ? high : low;
    values[to_size(2 * i + 1)] = kHighFirst ? low : high;
  }
}

template <bool kHighFirst>
void pack_nibble_rows(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  for (uint64_t i = 0; i < rows.count * form.unit_bytes; ++i) {
    const uint8_t first = values[to_size(2 * i)], second = values[to_size(2 * i + 1)];
    const int pair = kHighFirst ? first << 4 | second : first | second << 4;
    out[to_size(i)] = static_cast<std::byte>(pair);
  }
}

void unpack_bytes(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  std::memcpy(values, in, to_size(rows.count * form.columns));
}
void pack_bytes(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  std::memcpy(out, values, to_size(rows.count * form.columns));
}

// Calls at(value, byte) for each value of rows that begin with a band of 128.
template <class At>
void each_swizzled(const PlaneForm& form, RowRange rows, At at) {
  for (uint64_t r = 0; r < rows.count; ++r) {
    const uint64_t band = r / kSwizzleRows * form.unit_bytes;
    for (uint64_t c = 0; c < form.columns; ++c)
      at(to_size(r * form.columns + c), to_size(band + swizzled_at(r % kSwizzleRows, c)));
  }
}
void unpack_swizzled(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  each_swizzled(form, rows,
                [&](size_t value, size_t byte) { values[value] = static_cast<uint8_t>(in[byte]); });
}
void pack_swizzled(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  std::memset(out, 0, to_size(ceil_div(rows.count, kSwizzleRows) * form.unit_bytes));
  each_swizzled(form, rows,
                [&](size_t value, size_t byte) { out[byte] = static_cast<std::byte>(values[value]); });
}

}  // namespace

const PlanePacking kNibblesLowFirst{unpack_nibble_rows<false>, pack_nibble_rows<false>};
const PlanePacking kNibblesHighFirst{unpack_nibble_rows<true>, pack_nibble_rows<true>};
const PlanePacking kByteRows{unpack_bytes, pack_bytes};
const PlanePacking kSwizzledBytes{unpack_swizzled, pack_swizzled};
const PlanePacking kFieldsDownRows{unpack_down, pack_down};
const PlanePacking kFieldsAlongColumns{unpack_along<false>, pack_along<false>};
const PlanePacking kFieldsInAwqOrder{unpack_along<true>, pack_along<true>};

PlaneForm field_plane(const PlanePacking& packing, uint64_t rows, uint64_t columns, uint32_t bits) {
  PlaneForm form;
  form.packing = &packing;
  form.dtype = DType::I32;
  form.rows = rows;
  form.columns = columns;
  form.bits = bits;
  if (&packing == &kFieldsDownRows) {
    form.row_unit = fields_at_once(bits);
    form.unit_bytes = form.row_unit * bits / 8 * columns;
    form.shape = {rows * bits / 32, columns};
  } else {
    form.unit_bytes = columns * bits / 8;
    form.shape = {rows, columns * bits / 32};
  }
  return form;
}

PlaneForm nibble_plane(const PlanePacking& packing, uint64_t rows, uint64_t columns) {
  PlaneForm form;
  form.packing = &packing;
  form.dtype = DType::U8;
  form.shape = {rows, columns / 2};
  form.rows = rows;
  form.columns = columns;
  form.outputs_first = true;
  form.bits = 4;
  form.unit_bytes = columns / 2;
  return form;
}

PlaneForm byte_plane(const PlanePacking& packing, DType dtype, uint64_t rows, uint64_t columns) {
  PlaneForm form;
  form.packing = &packing;
  form.dtype = dtype;
  form.shape = {rows, columns};
  form.rows = rows;
  form.columns = columns;
  form.outputs_first = true;
  form.unit_bytes = columns;
  if (&packing == &kSwizzledBytes) {
    form.row_unit = kSwizzleRows;
    form.unit_bytes = swizzled_band(columns);
    form.shape = {ceil_div(rows, kSwizzleRows) * kSwizzleRows,
                  ceil_div(columns, kSwizzleColumns) * kSwizzleColumns};
  }
  return form;
}

PlaneForm value_plane(DType dtype, const Shape& shape) {
  PlaneForm form;
  form.dtype = dtype;
  form.shape = shape;
  return form;
}

}  // namespace tftf
