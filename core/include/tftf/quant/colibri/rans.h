// int4-rans256-g0: lossless entropy coding of the nibbles of an int4-row weight (spec colibri 1.10). 256
// interleaved streams of a byte-renormalised range coder with 32-bit state, one frequency table per
// container.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/result.h"

namespace tftf::colibri {

inline constexpr uint32_t kRansStreams = 256;
inline constexpr uint32_t kRansScaleBits = 14;
inline constexpr uint64_t kRansRecordHeader = 1056;  // 8 + 8 + 257 * 4, padded to 16

// Frequencies of the 16 nibbles: freq sums to 2^scale_bits, start is its exclusive prefix sum.
struct RansTable {
  uint32_t scale_bits = kRansScaleBits;
  std::array<uint32_t, 16> freq{};
  std::array<uint32_t, 16> start{};
  std::vector<uint8_t> slots;  // 2^scale_bits symbols
};

// Table of a histogram (counts of each nibble): largest remainders in binary64, every present symbol at least
// 1 (spec colibri 1.10). All-zero counts have no table: freq is then all zero.
RansTable rans_table(const std::array<uint64_t, 16>& histogram);
// Fills start and slots from freq. False when freq does not sum to 2^scale_bits or scale_bits is
// outside 1..15.
bool complete_rans_table(RansTable& table);
// CRC-32 of the slot table as U16 little-endian, eight lower-case hexadecimal digits.
std::string rans_table_crc(const RansTable& table);

// Adds the nibbles of `packed` to a histogram, low nibble first (all of them: padding nibbles are coded too).
void count_nibbles(Bytes packed, std::array<uint64_t, 16>& histogram);

// The record of one tensor's bytes: n_symbols, packed_bytes, 257 offsets, payload, padded to 16.
std::vector<std::byte> encode_rans(Bytes packed, const RansTable& table);

// Classes of a faulty record in the order in which they are looked for (spec colibri 4.4).
enum class RansFault : uint8_t {
  kTruncated,         // E_TRUNCATED: shorter than the header, or than header and payload
  kEmpty,             // E_EMPTY: no symbols
  kCountMismatch,     // E_COUNT_MISMATCH: packed_bytes is not n/2 + n%2
  kOffsetFirst,       // E_OFFSET_FIRST
  kOffsetsMonotonic,  // E_OFFSETS_MONOTONIC
  kStreamShort,       // E_STREAM_SHORT: a stream under 4 bytes
  kLengthMismatch,    // E_LENGTH_MISMATCH: longer than header and payload
  kOversize,          // E_OVERSIZE: more symbols than the payload can hold
  kPadNonzero,        // E_PAD_NONZERO
  kStreamStateRange,  // E_STREAM_STATE_RANGE: initial state below 2^23
  kStreamUnderrun,    // E_STREAM_UNDERRUN: renormalisation wants a byte that is not there
  kStreamLeftover,    // E_STREAM_LEFTOVER: bytes remain
  kStreamFinalState,  // E_STREAM_FINAL_STATE: the last state is not 2^23
  kReencodeMismatch,  // E_REENCODE_MISMATCH: it decodes, but the coder would have written other bytes
};
std::string_view rans_fault_class(RansFault fault);

struct RansFailure {
  RansFault fault;
  std::string detail;
};

// Checks a record and decodes it into `packed` (packed_bytes bytes). Bounded: output is at most 2^18 times
// the record's size and the caller passes `max_bytes`, past which kOversize is reported.
std::optional<RansFailure> decode_rans(Bytes record, const RansTable& table, uint64_t max_bytes,
                                       std::vector<std::byte>& packed);

// The same into `packed`, without allocations unless it fails: false when the record is faulty or is not of so many bytes.
bool decode_rans_into(Bytes record, const RansTable& table, MutableBytes packed);

}  // namespace tftf::colibri
