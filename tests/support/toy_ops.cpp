#include "toy_ops.h"

#include <algorithm>

namespace tftf::test {
namespace {

uint64_t first_unit(const Item& item, uint64_t tile) { return tile * item.units_per_tile; }
uint64_t unit_count(const Item& item, uint64_t tile) {
  return std::min(item.units_per_tile, item.units - first_unit(item, tile));
}

void flat_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const uint64_t begin = first_unit(item, tile);
  const uint64_t count = unit_count(item, tile);
  io.in.push_back(slice(item.in[0], begin, count));
  for (size_t k = 0; k < item.out.size(); ++k) {
    const uint64_t bytes = item.units == 0 ? 0 : item.out[k].row_bytes / item.units;
    io.out.push_back(slice(item.out[k], begin * bytes, count * bytes));
  }
}

void report(const Item& item, uint64_t tile, const std::byte* in, Value& value) {
  for (uint64_t i = 0; i < unit_count(item, tile); ++i) {
    value.n[0] += std::to_integer<uint64_t>(in[i]);
    value.x[0] = std::max(value.x[0], static_cast<double>(std::to_integer<uint64_t>(in[i])));
  }
}

void xor_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
             Value& value) noexcept {
  report(item, tile, slot.in[0], value);
  for (uint64_t i = 0; i < unit_count(item, tile); ++i)
    slot.out[0][i] = slot.in[0][i] ^ static_cast<std::byte>(item.arg[0]);
}

void xor_table_run(const Item& item, uint64_t tile, const Tables& tables, const KernelTable&,
                   const Slot& slot, Value&) noexcept {
  for (uint64_t i = 0; i < unit_count(item, tile); ++i) slot.out[0][i] = slot.in[0][i] ^ tables.table[0][0];
}

void spread_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
                Value&) noexcept {
  for (uint64_t i = 0; i < unit_count(item, tile); ++i) {
    std::fill_n(slot.out[0] + i * item.arg[0], item.arg[0], slot.in[0][i]);
    if (item.out.size() == 2) slot.out[1][i] = ~slot.in[0][i];
  }
}

void columns_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const uint64_t begin = first_unit(item, tile);
  const uint64_t count = unit_count(item, tile);
  Extent in = item.in[0];
  in.offset += begin * in.stride;
  in.rows = static_cast<uint32_t>(count);
  io.in.push_back(in);
  io.out.push_back(slice(item.out[0], begin * in.row_bytes, count * in.row_bytes));
}

void columns_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
                 Value&) noexcept {
  const auto add = item.residents.empty() ? 0u : std::to_integer<unsigned>(slot.residents[0][0]);
  for (uint64_t i = 0; i < unit_count(item, tile) * item.in[0].row_bytes; ++i)
    slot.out[0][i] = static_cast<std::byte>(std::to_integer<unsigned>(slot.in[0][i]) + add);
}

void measure_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
                 Value& value) noexcept {
  report(item, tile, slot.in[0], value);
}

}  // namespace

const TileOp kXor{.id = "xor", .io = flat_io, .run = xor_run};
const TileOp kSpread{.id = "spread", .io = flat_io, .run = spread_run};
const TileOp kColumns{.id = "columns", .io = columns_io, .run = columns_run};
const TileOp kMeasure{.id = "sum", .io = flat_io, .run = measure_run};
const TileOp kXorTable{.id = "xor-table", .io = flat_io, .run = xor_table_run};

void add_one(std::span<const std::byte> raw, std::span<std::byte> ready, const void*) noexcept {
  for (size_t i = 0; i < raw.size(); ++i)
    ready[i] = static_cast<std::byte>(std::to_integer<unsigned>(raw[i]) + 1);
}

std::string pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

Item toy_item(const TileOp& op, uint32_t tensor, Extent in, Extent out, uint64_t units_per_tile) {
  Item item;
  item.op = &op;
  item.tensor = tensor;
  item.units = in.rows == 1 ? in.row_bytes : in.rows;
  item.units_per_tile = units_per_tile;
  item.in = {in};
  item.out = {out};
  return item;
}

}  // namespace tftf::test
