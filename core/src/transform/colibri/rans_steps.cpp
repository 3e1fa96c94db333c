#include "transform/colibri/rans_steps.h"

#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/base/sha256.h"
#include "tftf/quant/colibri/rans_encoder.h"

namespace tftf::colibri {
namespace {

// 16 counts of 22 bits in one Value: 256 bits in n, 48 in each x, which a double holds exactly.
constexpr uint32_t kCountBits = 22;

void put_bits(Value& value, uint32_t at, uint64_t bit) {
  if (at < 256) {
    value.n[at / 64] |= bit << (at % 64);
  } else {
    const uint32_t rest = at - 256;
    value.x[rest / 48] += static_cast<double>(bit << (rest % 48));
  }
}

uint64_t get_bit(const Value& value, uint32_t at) {
  if (at < 256) return value.n[at / 64] >> (at % 64) & 1;
  const uint32_t rest = at - 256;
  return static_cast<uint64_t>(value.x[rest / 48]) >> (rest % 48) & 1;
}

void pack_counts(const std::array<uint64_t, 16>& counts, Value& value) {
  for (uint32_t s = 0; s < 16; ++s)
    for (uint32_t b = 0; b < kCountBits; ++b) put_bits(value, s * kCountBits + b, counts[s] >> b & 1);
}

void count_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const uint64_t first = tile * item.units_per_tile;
  io.in.push_back(slice(item.in[0], first, std::min(item.units_per_tile, item.units - first)));
}

void count_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
               Value& value) noexcept {
  const uint64_t first = tile * item.units_per_tile;
  std::array<uint64_t, 16> counts{};
  count_nibbles({slot.in[0], to_size(std::min(item.units_per_tile, item.units - first))}, counts);
  pack_counts(counts, value);
}

const RansTable& table_of(const Item& item) {
  return static_cast<const SharedRansTable*>(item.context.get())->table;
}

void whole_io(const Item& item, uint64_t, const Tables&, StepIo& io) {
  io.in.push_back(item.in[0]);
  if (!item.out.empty()) io.out.push_back(item.out[0]);
}

// The writing phase will need a record beside the tensor: a plan that promises less memory would break its word.
uint64_t record_room(const Item& item) { return item.in[0].row_bytes + kRansRecordHeader + 8 * kRansStreams; }

void measure_run(const Item& item, uint64_t, const Tables&, const KernelTable&, const Slot& slot,
                 Value& value) noexcept {
  const auto bytes = RansEncoder(table_of(item)).measure({slot.in[0], to_size(item.in[0].row_bytes)});
  value.n[0] = bytes.value_or(0);
  value.n[1] = bytes ? 0 : 1;
}

void encode_run(const Item& item, uint64_t, const Tables&, const KernelTable&, const Slot& slot,
                Value& value) noexcept {
  const MutableBytes record{slot.out[0], to_size(item.out[0].row_bytes)};
  if (!RansEncoder(table_of(item)).encode({slot.in[0], to_size(item.in[0].row_bytes)}, record))
    value.x[0] = 1;
  Sha256 hash;
  hash.update(record);
  const std::array<std::byte, 32> digest = hash.digest();
  for (size_t i = 0; i < 4; ++i) value.n[i] = load_le<uint64_t>(digest.data() + 8 * i);
}

}  // namespace

void add_nibble_counts(const Value& value, std::array<uint64_t, 16>& counts) {
  for (uint32_t s = 0; s < 16; ++s)
    for (uint32_t b = 0; b < kCountBits; ++b) counts[s] += get_bit(value, s * kCountBits + b) << b;
}

std::string record_digest(const Value& value) {
  std::array<std::byte, 32> digest;
  for (size_t i = 0; i < 4; ++i) store_le<uint64_t>(digest.data() + 8 * i, value.n[i]);
  return hex_text(digest);
}

const TileOp kCountNibblesOp{.id = "count nibbles", .io = count_io, .run = count_run};
const TileOp kMeasureRansOp{.id = "measure rans", .io = whole_io, .run = measure_run, .scratch = record_room};
const TileOp kEncodeRansOp{.id = "rans", .io = whole_io, .run = encode_run};

}  // namespace tftf::colibri
