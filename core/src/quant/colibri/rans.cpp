#include "tftf/quant/colibri/rans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/colibri/rans_frame.h"
#include "tftf/base/checked.h"
#include "tftf/base/crc32.h"
#include "tftf/quant/colibri/rans_encoder.h"

namespace tftf::colibri {
namespace {

void put_nibble(MutableBytes packed, uint64_t j, uint32_t symbol) {
  packed[to_size(j / 2)] |= static_cast<std::byte>(symbol << (4 * (j % 2)));
}

std::optional<RansFault> decode_stream(Bytes bytes, uint64_t symbols, uint32_t stream, const RansTable& table,
                                       MutableBytes packed) {
  uint32_t x = 0;
  for (int i = 0; i < 4; ++i) x = x << 8 | static_cast<uint32_t>(bytes[static_cast<size_t>(i)]);
  if (x < kRansLowest) return RansFault::kStreamStateRange;
  const bool canonical = x < kRansHighest;
  size_t at = 4;
  const uint32_t mask = (1u << table.scale_bits) - 1;
  for (uint64_t j = stream; j < symbols; j += kRansStreams) {
    const uint32_t slot = x & mask;
    const uint32_t symbol = table.slots[slot];
    put_nibble(packed, j, symbol);
    x = table.freq[symbol] * (x >> table.scale_bits) + slot - table.start[symbol];
    while (x < kRansLowest) {
      if (at == bytes.size()) return RansFault::kStreamUnderrun;
      x = x << 8 | static_cast<uint32_t>(bytes[at++]);
    }
  }
  if (at != bytes.size()) return RansFault::kStreamLeftover;
  if (x != kRansLowest) return RansFault::kStreamFinalState;
  if (!canonical) return RansFault::kReencodeMismatch;
  return std::nullopt;
}

std::optional<RansFailure> decode_streams(Bytes record, const RansFrame& frame, const RansTable& table,
                                          MutableBytes packed) {
  for (uint32_t i = 0; i < kRansStreams; ++i) {
    const Bytes stream =
        record.subspan(to_size(kRansRecordHeader + frame.offsets[i]), to_size(frame.stream_bytes(i)));
    if (auto fault = decode_stream(stream, frame.symbols, i, table, packed))
      return RansFailure{*fault, "stream " + std::to_string(i)};
  }
  return std::nullopt;
}

}  // namespace

std::string_view rans_fault_class(RansFault fault) {
  constexpr std::string_view kFaultClasses[] = {"E_TRUNCATED",          "E_EMPTY",
                                                "E_COUNT_MISMATCH",     "E_OFFSET_FIRST",
                                                "E_OFFSETS_MONOTONIC",  "E_STREAM_SHORT",
                                                "E_LENGTH_MISMATCH",    "E_OVERSIZE",
                                                "E_PAD_NONZERO",        "E_STREAM_STATE_RANGE",
                                                "E_STREAM_UNDERRUN",    "E_STREAM_LEFTOVER",
                                                "E_STREAM_FINAL_STATE", "E_REENCODE_MISMATCH"};
  return kFaultClasses[static_cast<size_t>(fault)];
}

RansTable rans_table(const std::array<uint64_t, 16>& histogram) {
  RansTable table;
  const double total = static_cast<double>(std::accumulate(histogram.begin(), histogram.end(), uint64_t{0}));
  if (total == 0) return table;
  constexpr int64_t kSum = 1 << kRansScaleBits;
  std::array<double, 16> fraction{};
  int64_t deficit = kSum;
  for (size_t s = 0; s < 16; ++s) {
    const double raw = static_cast<double>(histogram[s]) / total * static_cast<double>(kSum);
    const double whole = std::floor(raw);
    fraction[s] = raw - whole;
    table.freq[s] = static_cast<uint32_t>(whole);
    if (histogram[s] > 0 && table.freq[s] == 0) table.freq[s] = 1;
    deficit -= table.freq[s];
  }
  std::array<size_t, 16> order{};
  std::iota(order.begin(), order.end(), size_t{0});
  if (deficit > 0) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return fraction[a] > fraction[b]; });
    for (size_t i = 0; deficit > 0; i = (i + 1) % 16)
      if (histogram[order[i]] > 0) {
        ++table.freq[order[i]];
        --deficit;
      }
  } else if (deficit < 0) {
    const auto freq = table.freq;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return freq[a] > freq[b]; });
    for (size_t i = 0; deficit < 0; i = (i + 1) % 16)
      if (table.freq[order[i]] > 1) {
        --table.freq[order[i]];
        ++deficit;
      }
  }
  complete_rans_table(table);
  return table;
}

bool complete_rans_table(RansTable& table) {
  if (table.scale_bits < 1 || table.scale_bits > 15) return false;
  uint64_t sum = 0;
  for (size_t s = 0; s < 16; ++s) {
    table.start[s] = static_cast<uint32_t>(sum);
    sum += table.freq[s];
  }
  if (sum != uint64_t{1} << table.scale_bits) return false;
  table.slots.clear();
  for (size_t s = 0; s < 16; ++s)
    table.slots.insert(table.slots.end(), table.freq[s], static_cast<uint8_t>(s));
  return true;
}

std::string rans_table_crc(const RansTable& table) {
  std::vector<std::byte> raw(table.slots.size() * 2);
  for (size_t i = 0; i < table.slots.size(); ++i) raw[2 * i] = static_cast<std::byte>(table.slots[i]);
  return crc32_hex(raw);
}

void count_nibbles(Bytes packed, std::array<uint64_t, 16>& histogram) {
  for (std::byte b : packed) {
    ++histogram[static_cast<size_t>(b) & 15];
    ++histogram[static_cast<size_t>(b) >> 4];
  }
}

std::vector<std::byte> encode_rans(Bytes packed, const RansTable& table) {
  RansEncoder encoder(table);
  std::vector<std::byte> record(to_size(encoder.measure(packed).value_or(0)));
  if (!record.empty()) encoder.encode(packed, record);
  return record;
}

std::optional<RansFailure> decode_rans(Bytes record, const RansTable& table, uint64_t max_bytes,
                                       std::vector<std::byte>& packed) {
  using enum RansFault;
  packed.clear();
  RansFrame frame;
  const Bytes header = record.first(std::min<size_t>(record.size(), to_size(kRansRecordHeader)));
  if (auto failure = read_rans_frame(header, record.size(), frame)) return failure;
  if (frame.bytes > max_bytes)
    return RansFailure{kOversize, std::to_string(frame.bytes) + " packed bytes where at most " +
                                      std::to_string(max_bytes) + " are expected"};
  const Bytes padding = record.subspan(to_size(kRansRecordHeader + frame.payload));
  if (frame.pad_nonzero ||
      std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; }))
    return RansFailure{kPadNonzero, "padding bytes are not zero"};
  packed.assign(to_size(frame.bytes), std::byte{0});
  return decode_streams(record, frame, table, packed);
}

bool decode_rans_into(Bytes record, const RansTable& table, MutableBytes packed) {
  RansFrame frame;
  const Bytes header = record.first(std::min<size_t>(record.size(), to_size(kRansRecordHeader)));
  if (read_rans_frame(header, record.size(), frame) || frame.pad_nonzero || frame.bytes != packed.size())
    return false;
  const Bytes padding = record.subspan(to_size(kRansRecordHeader + frame.payload));
  if (std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; }))
    return false;
  std::fill(packed.begin(), packed.end(), std::byte{0});
  return !decode_streams(record, frame, table, packed);
}

}  // namespace tftf::colibri
