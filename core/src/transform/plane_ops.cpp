// Tile operations on planes.
#include "plane_ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tftf::transform {
namespace {

constexpr uint64_t kWordBits = 32;

const PlaneChange& change_of(const Item& item) {
  return *static_cast<const PlaneChange*>(item.context.get());
}
const PlaneCheck& check_of(const Item& item) { return *static_cast<const PlaneCheck*>(item.context.get()); }

bool turns_over(const PlaneChange& change) { return change.from.outputs_first != change.to.outputs_first; }

ElementRange units_of(const Item& item, uint64_t tile) {
  const uint64_t first = tile * item.units_per_tile;
  return {first, std::min(item.units_per_tile, item.units - first)};
}

// The bytes of rows that begin with a unit of the form.
Extent rows_of_form(const Extent& whole, const PlaneForm& form, ElementRange rows) {
  return slice(whole, rows.first / form.row_unit * form.unit_bytes,
               ceil_div(rows.count, form.row_unit) * form.unit_bytes);
}

// What the source has of rows of the result, which may have more: those are zeros.
ElementRange stored_rows(const PlaneChange& change, ElementRange rows) {
  const uint64_t first = std::min(rows.first, change.from.rows);
  return {first, std::min(rows.first + rows.count, change.from.rows) - first};
}

void plane_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const PlaneChange& change = change_of(item);
  const ElementRange rows = units_of(item, tile);
  io.in.push_back(rows_of_form(item.in[0], change.from, stored_rows(change, rows)));
  if (turns_over(change)) {
    io.out.push_back(item.out[0]);
  } else {
    io.out.push_back(rows_of_form(item.out[0], change.to, rows));
  }
}

uint64_t plane_scratch(const Item& item) {
  const PlaneChange& change = change_of(item);
  return item.units_per_tile * change.from.columns * (turns_over(change) ? 2 : 1);
}

void plane_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
               Value&) noexcept {
  const PlaneChange& change = change_of(item);
  const ElementRange range = units_of(item, tile);
  const RowRange rows{range.first, range.count};
  auto* values = reinterpret_cast<uint8_t*>(slot.scratch.data());
  const ElementRange stored = stored_rows(change, range);
  change.from.packing->unpack(change.from, {stored.first, stored.count}, slot.in[0], values);
  if (stored.count < rows.count)
    std::memset(values + to_size(stored.count * change.from.columns), 0,
                to_size((rows.count - stored.count) * change.from.columns));
  if (!turns_over(change)) return change.to.packing->pack(change.to, rows, values, slot.out[0]);
  const uint64_t height = change.from.rows, width = change.from.columns;
  uint8_t* const turned = values + to_size(height * width);
  constexpr uint64_t kSide = 64;
  for (uint64_t r = 0; r < height; r += kSide) {
    for (uint64_t c = 0; c < width; ++c) {
      for (uint64_t i = r; i < std::min(r + kSide, height); ++i)
        turned[to_size(c * height + i)] = values[to_size(i * width + c)];
    }
  }
  change.to.packing->pack(change.to, {0, width}, turned, slot.out[0]);
}

// A matrix of elements becomes its columns. arg: bytes of an element, rows of the source.
void turn_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const ElementRange columns = units_of(item, tile);
  const uint64_t size = item.arg[0], rows = item.arg[1];
  io.in.push_back({.file = item.in[0].file,
                   .rows = static_cast<uint32_t>(rows),
                   .offset = item.in[0].offset + columns.first * size,
                   .row_bytes = columns.count * size,
                   .stride = item.units * size});
  io.out.push_back(slice(item.out[0], columns.first * rows * size, columns.count * rows * size));
}

void turn_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
              Value&) noexcept {
  const uint64_t size = item.arg[0], rows = item.arg[1], columns = units_of(item, tile).count;
  for (uint64_t c = 0; c < columns; ++c)
    for (uint64_t r = 0; r < rows; ++r)
      std::memcpy(slot.out[0] + to_size((c * rows + r) * size),
                  slot.in[0] + to_size((r * columns + c) * size), to_size(size));
}

const TileOp kTurnOp{.id = "turn", .io = turn_io, .run = turn_run};

// Values that are stored as they are.
bool is_value_turn(const PlaneChange& change) {
  return change.from.packing == nullptr && change.to.packing == nullptr && turns_over(change);
}

const TileOp kPlaneOp{.id = "repack", .io = plane_io, .run = plane_run, .scratch = plane_scratch};

void words_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const ElementRange words = units_of(item, tile);
  io.out.push_back(slice(item.out[0], words.first * 4, words.count * 4));
}

// arg: first, repeat, step.
void words_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
               Value&) noexcept {
  const ElementRange words = units_of(item, tile);
  for (uint64_t i = 0; i < words.count; ++i) {
    const auto word = static_cast<uint32_t>(item.arg[0] + (words.first + i) / item.arg[1] * item.arg[2]);
    std::memcpy(slot.out[0] + to_size(i * 4), &word, 4);
  }
}

const TileOp kWordsOp{.id = "count", .io = words_io, .run = words_run};

void values_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const ElementRange units = units_of(item, tile);
  const PlaneCheck& check = check_of(item);
  if (check.group != 0) {
    io.in.push_back(slice(item.in[0], units.first * 4, units.count * 4));
  } else {
    io.in.push_back(rows_of_form(item.in[0], check.form, units));
  }
}

uint64_t values_scratch(const Item& item) {
  const PlaneCheck& check = check_of(item);
  return check.group != 0 ? 0 : item.units_per_tile * check.form.columns;
}

void values_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
                Value& value) noexcept {
  const ElementRange units = units_of(item, tile);
  const PlaneCheck& check = check_of(item);
  if (check.group != 0) {
    for (uint64_t i = 0; i < units.count; ++i) {
      uint32_t entry;
      std::memcpy(&entry, slot.in[0] + to_size(i * 4), 4);
      value.n[0] += entry != (units.first + i) / check.group;
    }
    return;
  }
  auto* values = reinterpret_cast<uint8_t*>(slot.scratch.data());
  check.form.packing->unpack(check.form, {units.first, units.count}, slot.in[0], values);
  for (uint64_t i = 0; i < units.count * check.form.columns; ++i)
    value.n[0] += check.only ? values[to_size(i)] != *check.only : values[to_size(i)] < check.least;
}

const TileOp kPlaneCheckOp{
    .id = "plane-check", .io = values_io, .run = values_run, .scratch = values_scratch};

}  // namespace

Result<void> check_plane(const PlaneChange& change) {
  if (!turns_over(change)) return {};
  if (is_value_turn(change)) {
    const Shape& shape = change.from.shape;
    const bool whole = dtype_bits(change.from.dtype) % 8 == 0 && change.from.dtype == change.to.dtype;
    if (whole && shape.size() == 2 && shape[0] <= UINT32_MAX && shape[1] > 0) return {};
    return no_place("its scales are no matrix that can be turned over");
  }
  const auto bytes = checked_mul(change.from.rows, change.from.columns);
  if (bytes && *bytes <= kLargestUnitBytes) return {};
  return no_place("it has to be turned over as a whole, and is too large for that");
}

Item plane_item(std::shared_ptr<const PlaneChange> change, const Extent& from, const Extent& to,
                uint64_t tile_bytes) {
  Item item{.op = &kPlaneOp};
  item.in = {from};
  item.out = {to};
  if (is_value_turn(*change)) {
    item.op = &kTurnOp;
    item.arg = {dtype_bits(change->from.dtype) / 8, change->from.shape[0]};
    item.units = change->from.shape[1];
    item.units_per_tile =
        std::min(item.units, tile_units(tile_bytes, change->from.shape[0] * dtype_bits(change->from.dtype)));
    item.context = std::move(change);
    return item;
  }
  item.units = change->from.rows;
  item.units_per_tile = item.units;
  if (!turns_over(*change)) {
    item.units = change->to.rows;
    const uint64_t multiple = std::lcm(change->from.row_unit, change->to.row_unit);
    item.units_per_tile = std::min(item.units, tile_units(tile_bytes, change->from.columns * 8, multiple));
  }
  item.context = std::move(change);
  return item;
}

Item words_item(const CodePlane::Words& words, const Extent& to, uint64_t tile_bytes) {
  Item item{.op = &kWordsOp};
  item.out = {to};
  item.units = to.bytes() / 4;
  item.units_per_tile = std::max<uint64_t>(1, std::min(item.units, tile_units(tile_bytes, kWordBits)));
  item.arg = {words.first, words.repeat, words.step};
  return item;
}

Item check_item(std::shared_ptr<const PlaneCheck> check, const Extent& from, uint64_t tile_bytes) {
  Item item{.op = &kPlaneCheckOp};
  item.in = {from};
  if (check->group != 0) {
    item.units = from.bytes() / 4;
    item.units_per_tile = std::max<uint64_t>(1, std::min(item.units, tile_units(tile_bytes, kWordBits)));
  } else {
    item.units = check->form.rows;
    item.units_per_tile =
        std::min(item.units, tile_units(tile_bytes, check->form.columns * 8, check->form.row_unit));
  }
  item.context = std::move(check);
  return item;
}

}  // namespace tftf::transform
