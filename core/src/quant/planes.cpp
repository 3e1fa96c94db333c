// Fields of words to values, a byte each, and back.
#include "quant/planes.h"

#include <algorithm>

#include "quant/bit_fields.h"

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

template <bool kAwq>
uint64_t field_of_column(uint64_t column) {
  constexpr std::array<uint8_t, 8> kField = {0, 4, 1, 5, 2, 6, 3, 7};
  return kAwq ? column / 8 * 8 + kField[to_size(column % 8)] : column;
}

template <bool kAwq>
void unpack_along(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept {
  const uint32_t mask = stored_mask(form);
  for (uint64_t r = 0; r < rows.count; ++r) {
    for (uint64_t c = 0; c < form.columns; ++c) {
      const uint32_t field = field_at(in, field_of_column<kAwq>(c) * form.bits, form.bits);
      values[to_size(c)] = static_cast<uint8_t>((field - form.shift) & mask);
    }
    in += to_size(form.unit_bytes);
    values += to_size(form.columns);
  }
}

template <bool kAwq>
void pack_along(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept {
  const uint32_t mask = stored_mask(form);
  for (uint64_t r = 0; r < rows.count; ++r) {
    std::memset(out, 0, to_size(form.unit_bytes));
    for (uint64_t c = 0; c < form.columns; ++c) {
      const uint32_t field = (values[to_size(c)] + form.shift) & mask;
      const uint64_t bit = field_of_column<kAwq>(c) * form.bits;
      std::byte* word = out + to_size(bit / 32 * 4);
      const auto to = static_cast<uint32_t>(bit % 32);
      store_word(word, load_word(word) | field << to);
      if (to + form.bits > 32) store_word(word + 4, load_word(word + 4) | field >> (32 - to));
    }
    out += to_size(form.unit_bytes);
    values += to_size(form.columns);
  }
}

}  // namespace

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

PlaneForm value_plane(DType dtype, const Shape& shape) {
  PlaneForm form;
  form.dtype = dtype;
  form.shape = shape;
  return form;
}

}  // namespace tftf
