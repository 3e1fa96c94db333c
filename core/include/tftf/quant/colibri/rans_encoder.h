// Writing int4-rans256-g0 records whose place and size are known before their bytes are (spec colibri 1.10).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "tftf/base/bytes.h"
#include "tftf/quant/colibri/rans.h"

namespace tftf::colibri {

// Longest tensor that is coded: its streams' offsets are of 32 bits.
inline constexpr uint64_t kRansMostPacked = uint64_t{1} << 29;

// The streams of one record. Both functions walk the bytes once and hold nothing but the 256 states.
class RansEncoder {
 public:
  explicit RansEncoder(const RansTable& table);
  // Bytes of the record of `packed` (at most kRansMostPacked of them). Nothing when it holds a symbol that the table
  // does not know.
  std::optional<uint64_t> measure(Bytes packed) noexcept;
  // Writes the record, of exactly measure() bytes. False, with the record zeroed, when it would have another size.
  bool encode(Bytes packed, MutableBytes record) noexcept;

 private:
  // Bytes of each stream; false for an unknown symbol.
  bool measure_streams(Bytes packed) noexcept;
  uint64_t record_bytes() const noexcept;
  // Bytes that go out before a symbol; never more than two.
  uint32_t emitted_bytes(uint32_t symbol, uint32_t state) const noexcept;
  // The state after a symbol whose frequency is not 0; `state` < 2^31.
  uint32_t next_state(uint32_t symbol, uint32_t state) const noexcept;

  const RansTable& table_;
  std::array<uint64_t, 16> limit_{};  // states from which a byte is emitted before the symbol
  std::array<uint64_t, 16> reciprocal_{};
  std::array<uint32_t, 16> shift_{};
  std::array<uint64_t, kRansStreams> sizes_{};
};

// The text under kRansTableKey: JSON, sorted keys, ", " and ": " between (spec colibri 1.10).
std::string rans_table_text(const RansTable& table);

// One shard of repack-manifest.json (spec colibri 4.4).
struct RansManifestShard {
  std::string file{};
  std::optional<std::string> source{};  // the shard it was made from; null in the file when that is not known
  uint64_t bytes = 0;
  std::string sha256{};                          // of the file, hexadecimal
  std::map<std::string, std::string> records{};  // weight name to SHA-256 of its record
};
// The text of repack-manifest.json: sorted keys, indent 1.
std::string rans_manifest_text(const std::string& table_crc, std::span<const RansManifestShard> shards);

}  // namespace tftf::colibri
