#include "tftf/quant/colibri/rans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tftf/base/checked.h"
#include "tftf/base/crc32.h"
#include "tftf/quant/colibri/rans_encoder.h"

namespace tftf::colibri {
namespace {

constexpr uint32_t kLowest = 1u << 23;  // states live in [kLowest, 256 * kLowest)

void put_nibble(std::vector<std::byte>& packed, uint64_t j, uint32_t symbol) {
  packed[to_size(j / 2)] |= static_cast<std::byte>(symbol << (4 * (j % 2)));
}

std::optional<RansFault> decode_stream(Bytes bytes, uint64_t symbols, uint32_t stream, const RansTable& table,
                                       std::vector<std::byte>& packed) {
  uint32_t x = 0;
  for (int i = 0; i < 4; ++i) x = x << 8 | static_cast<uint32_t>(bytes[static_cast<size_t>(i)]);
  if (x < kLowest) return RansFault::kStreamStateRange;
  size_t at = 4;
  const uint32_t mask = (1u << table.scale_bits) - 1;
  for (uint64_t j = stream; j < symbols; j += kRansStreams) {
    const uint32_t slot = x & mask;
    const uint32_t symbol = table.slots[slot];
    put_nibble(packed, j, symbol);
    x = table.freq[symbol] * (x >> table.scale_bits) + slot - table.start[symbol];
    while (x < kLowest) {
      if (at == bytes.size()) return RansFault::kStreamUnderrun;
      x = x << 8 | static_cast<uint32_t>(bytes[at++]);
    }
  }
  if (at != bytes.size()) return RansFault::kStreamLeftover;
  if (x != kLowest) return RansFault::kStreamFinalState;
  return std::nullopt;
}

RansFailure failure(RansFault fault, std::string detail) { return {fault, std::move(detail)}; }

}  // namespace

std::string_view rans_fault_class(RansFault fault) {
  constexpr std::string_view kFaultClasses[] = {"E_TRUNCATED",         "E_EMPTY",
                                                "E_COUNT_MISMATCH",    "E_OFFSET_FIRST",
                                                "E_OFFSETS_MONOTONIC", "E_STREAM_SHORT",
                                                "E_LENGTH_MISMATCH",   "E_OVERSIZE",
                                                "E_PAD_NONZERO",       "E_STREAM_STATE_RANGE",
                                                "E_STREAM_UNDERRUN",   "E_STREAM_LEFTOVER",
                                                "E_STREAM_FINAL_STATE"};
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
  const uint32_t crc = crc32(raw);
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[crc >> shift & 15];
  return text;
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
  if (record.size() < kRansRecordHeader)
    return failure(kTruncated,
                   "the record has " + std::to_string(record.size()) + " bytes, its header needs 1056");
  const auto symbols = load_le<uint64_t>(record.data());
  const auto bytes = load_le<uint64_t>(record.data() + 8);
  if (symbols == 0) return failure(kEmpty, "the record holds no symbols");
  if (bytes != symbols / 2 + symbols % 2)
    return failure(kCountMismatch,
                   std::to_string(symbols) + " symbols in " + std::to_string(bytes) + " packed bytes");
  auto offset = [&](uint32_t i) { return load_le<uint32_t>(record.data() + 16 + 4 * i); };
  if (offset(0) != 0) return failure(kOffsetFirst, "the first stream begins at " + std::to_string(offset(0)));
  for (uint32_t i = 0; i < kRansStreams; ++i)
    if (offset(i + 1) < offset(i))
      return failure(kOffsetsMonotonic, "stream " + std::to_string(i) + " ends before it begins");
  for (uint32_t i = 0; i < kRansStreams; ++i)
    if (offset(i + 1) - offset(i) < 4)
      return failure(kStreamShort, "stream " + std::to_string(i) + " has under 4 bytes");
  const uint64_t payload = offset(kRansStreams);
  const uint64_t padded = (kRansRecordHeader + payload + 15) / 16 * 16;
  if (padded > record.size()) return failure(kTruncated, "the payload runs past the record");
  if (padded < record.size())
    return failure(kLengthMismatch, std::to_string(record.size()) + " bytes where " + std::to_string(padded) +
                                        " are described");
  if (symbols / 8 / (1u << 15) > payload || bytes > max_bytes)
    return failure(kOversize,
                   std::to_string(symbols) + " symbols from " + std::to_string(payload) + " bytes");
  auto all_zero = [&](uint64_t begin, uint64_t end) {
    return std::all_of(record.begin() + static_cast<ptrdiff_t>(begin),
                       record.begin() + static_cast<ptrdiff_t>(end),
                       [](std::byte b) { return b == std::byte{0}; });
  };
  if (!all_zero(16 + 4 * 257, kRansRecordHeader) || !all_zero(kRansRecordHeader + payload, padded))
    return failure(kPadNonzero, "padding bytes are not zero");
  packed.assign(to_size(bytes), std::byte{0});
  for (uint32_t i = 0; i < kRansStreams; ++i) {
    const Bytes stream = record.subspan(kRansRecordHeader + offset(i), offset(i + 1) - offset(i));
    if (auto fault = decode_stream(stream, symbols, i, table, packed))
      return failure(*fault, "stream " + std::to_string(i));
  }
  return std::nullopt;
}

}  // namespace tftf::colibri
