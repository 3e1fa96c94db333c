#include "tftf/quant/colibri/rans_encoder.h"

#include <algorithm>
#include <vector>

#include "tftf/base/base64.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_member.h"
#include "tftf/base/json_text.h"

namespace tftf::colibri {
namespace {

constexpr uint32_t kFirstState = 1u << 23;

std::string number_list(const std::array<uint32_t, 16>& numbers) {
  std::string text = "[";
  for (const uint32_t n : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

}  // namespace

RansEncoder::RansEncoder(const RansTable& table) : table_(table) {
  for (size_t s = 0; s < 16; ++s) {
    const uint32_t f = table.freq[s];
    limit_[s] = (static_cast<uint64_t>(kFirstState >> table.scale_bits) << 8) * f;
    if (f == 0) continue;
    // x / f is x * reciprocal >> shift for every x below 2^31, as states are when a symbol is taken: the reciprocal is
    // off by less than 1 / f in its last place, and 2^shift is at least 2^31 f.
    uint32_t bits = 0;
    while ((1u << bits) < f) ++bits;
    shift_[s] = 31 + bits;
    reciprocal_[s] = ((uint64_t{1} << shift_[s]) + f - 1) / f;
  }
}

uint32_t RansEncoder::emitted_bytes(uint32_t symbol, uint32_t state) const noexcept {
  return (state >= limit_[symbol] ? 1 : 0) + (state >> 8 >= limit_[symbol] ? 1 : 0);
}

uint32_t RansEncoder::next_state(uint32_t symbol, uint32_t state) const noexcept {
  const auto quotient = static_cast<uint32_t>(state * reciprocal_[symbol] >> shift_[symbol]);
  const uint32_t rest = state - quotient * table_.freq[symbol];
  return (quotient << table_.scale_bits) + rest + table_.start[symbol];
}

bool RansEncoder::measure_streams(Bytes packed) noexcept {
  std::array<uint32_t, kRansStreams> states;
  states.fill(kFirstState);
  sizes_.fill(4);
  // Symbols from the last to the first, so that each stream meets its own in falling order.
  for (uint64_t at = packed.size(); at-- > 0;) {
    const auto byte = static_cast<uint32_t>(packed[to_size(at)]);
    for (const uint32_t high : {1u, 0u}) {
      const uint32_t symbol = high != 0 ? byte >> 4 : byte & 15;
      const auto stream = static_cast<size_t>((2 * at + high) % kRansStreams);
      if (limit_[symbol] == 0) return false;
      const uint32_t state = states[stream];
      const uint32_t emitted = emitted_bytes(symbol, state);
      sizes_[stream] += emitted;
      states[stream] = next_state(symbol, state >> (8 * emitted));
    }
  }
  return true;
}

uint64_t RansEncoder::record_bytes() const noexcept {
  uint64_t bytes = kRansRecordHeader;
  for (const uint64_t size : sizes_) bytes += size;
  return (bytes + 15) / 16 * 16;
}

std::optional<uint64_t> RansEncoder::measure(Bytes packed) noexcept {
  if (!measure_streams(packed)) return std::nullopt;
  return record_bytes();
}

bool RansEncoder::encode(Bytes packed, MutableBytes record) noexcept {
  std::fill(record.begin(), record.end(), std::byte{0});
  if (!measure_streams(packed) || record_bytes() != record.size()) return false;
  store_le<uint64_t>(record.data(), 2 * uint64_t{packed.size()});
  store_le<uint64_t>(record.data() + 8, uint64_t{packed.size()});
  // Bytes come out in falling order: each stream is filled from its end.
  std::array<std::byte*, kRansStreams> ends;
  uint64_t payload = 0;
  for (size_t s = 0; s < kRansStreams; ++s) {
    payload += sizes_[s];
    ends[s] = record.data() + to_size(kRansRecordHeader + payload);
    store_le<uint32_t>(record.data() + 16 + 4 * (s + 1), static_cast<uint32_t>(payload));
  }
  std::array<uint32_t, kRansStreams> states;
  states.fill(kFirstState);
  for (uint64_t at = packed.size(); at-- > 0;) {
    const auto byte = static_cast<uint32_t>(packed[to_size(at)]);
    for (const uint32_t high : {1u, 0u}) {
      const uint32_t symbol = high != 0 ? byte >> 4 : byte & 15;
      const auto stream = static_cast<size_t>((2 * at + high) % kRansStreams);
      const uint32_t state = states[stream];
      const uint32_t emitted = emitted_bytes(symbol, state);
      // Both bytes are put down without asking: there is room for four more, and what is none is written over.
      ends[stream][-1] = static_cast<std::byte>(state & 255);
      ends[stream][-2] = static_cast<std::byte>(state >> 8 & 255);
      ends[stream] -= emitted;
      states[stream] = next_state(symbol, state >> (8 * emitted));
    }
  }
  for (size_t s = 0; s < kRansStreams; ++s) {
    uint32_t state = states[s];
    for (int i = 0; i < 4; ++i, state >>= 8) *--ends[s] = static_cast<std::byte>(state & 255);
  }
  return true;
}

std::string rans_table_text(const RansTable& table) {
  std::vector<std::byte> slots(table.slots.size() * 2);
  for (size_t i = 0; i < table.slots.size(); ++i) slots[2 * i] = static_cast<std::byte>(table.slots[i]);
  return "{\"M\": " + std::to_string(table.slots.size()) + ", \"freq\": " + number_list(table.freq) +
         ", \"n_streams\": " + std::to_string(kRansStreams) +
         ", \"scale_bits\": " + std::to_string(table.scale_bits) + ", \"slot_to_symbol_b64\": \"" +
         encode_base64(slots) + "\", \"start\": " + number_list(table.start) + ", \"table_crc32\": \"" +
         rans_table_crc(table) + "\", \"table_id\": \"g0\"}";
}

std::string rans_manifest_text(const std::string& table_crc, std::span<const RansManifestShard> shards) {
  OrderedJson list = OrderedJson::array();
  size_t tensors = 0;
  for (const RansManifestShard& shard : shards) {
    OrderedJson records = OrderedJson::object();
    for (const auto& [name, sha256] : shard.records) add_member(records, name, sha256);
    list.push_back(OrderedJson{{"bytes", shard.bytes},
                               {"file", shard.file},
                               {"records", std::move(records)},
                               {"sha256", shard.sha256},
                               {"source", shard.source ? OrderedJson(*shard.source) : OrderedJson()},
                               {"weight_tensors", shard.records.size()}});
    tensors += shard.records.size();
  }
  const OrderedJson manifest{{"format", "int4-rans256-g0"},
                             {"n_shards", shards.size()},
                             {"n_weight_tensors", tensors},
                             {"shards", std::move(list)},
                             {"table_crc32", table_crc}};
  return manifest.dump(1, ' ', true, OrderedJson::error_handler_t::replace);
}

}  // namespace tftf::colibri
