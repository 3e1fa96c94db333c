// Containers of int4-rans256-g0 records as `rans-verify` judges them (spec colibri 4.4): each shard's header, stamps and
// table, the manifest, and every record to its last bit, in constant memory whatever the sizes claim.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/container/header.h"
#include "tftf/quant/colibri/rans.h"

namespace tftf::colibri {

inline constexpr std::string_view kRansStamp = "int4-rans256-g0";
inline constexpr std::string_view kRansManifest = "repack-manifest.json";
inline constexpr std::string_view kRansShardPrefix = "out-rans-";

// One reason not to trust a container. The first without a tensor ends its shard (but E_SHARD_DIGEST_MISMATCH), the first
// of a tensor that tensor.
struct RansRefusal {
  std::string shard;
  std::string tensor;       // empty: the shard as a whole
  std::string_view reason;  // "E_TABLE_CRC"
  std::string detail;       // a phrase
};

// The text of kRansTableKey. Checked in this order: keys, scale_bits, M, n_streams, shape of freq and start, sum, prefix
// sums, base64, length, CRC, bands.
struct RansTableReading {
  std::optional<RansTable> table;
  std::string_view reason;  // without a table
  std::string detail;
};
RansTableReading read_rans_table(std::string_view text);

// repack-manifest.json: digests of shards and records.
class RansManifest {
 public:
  struct Shard {
    std::string sha256;
    std::map<std::string, std::string, std::less<>> records;
  };

  explicit RansManifest(std::string_view text);
  // Why it cannot be used, a phrase; nothing is found in it then.
  const std::optional<std::string>& problem() const { return problem_; }
  const Shard* find(std::string_view shard) const;
  const std::map<std::string, Shard, std::less<>>& shards() const { return shards_; }

 private:
  std::map<std::string, Shard, std::less<>> shards_;
  std::optional<std::string> problem_;
};

// A record that is to be read.
struct RansRecord {
  uint32_t tensor = 0;  // in the header
  std::string sha256;   // by the manifest, empty without one
};

// What a shard's header, and the manifest, say before any data is read.
struct RansShard {
  std::vector<RansRefusal> refusals;
  bool ended = false;               // by a refusal of the shard: nothing is to be read
  std::optional<RansTable> table;   // unless ended
  std::string sha256;               // of the file by the manifest, empty without one
  std::vector<RansRecord> records;  // by name
};
// `name`: the shard's. `manifest`: null when there is none.
RansShard check_rans_shard(std::string_view name, const HeaderScan& scan, const RansManifest* manifest);

// The folder's shards among its file names: out-rans-*.safetensors, if there is none every .safetensors. Sorted.
std::vector<std::string> choose_rans_shards(const std::vector<std::string>& names);

// Checks one record while it is read: O(1) memory, the time is that of the symbols it claims (but none for symbols that
// cost no bits).
class RansRecordCheck {
 public:
  // `table` must outlive this.
  RansRecordCheck(const RansTable& table, uint64_t record_bytes);
  // The record's bytes in order, in pieces of any size.
  void feed(Bytes bytes);
  // After the last byte: the first fault in the order of RansFault's classes.
  std::optional<RansFailure> finish();
  // How many packed bytes the record claims; known once its header was fed and is sound.
  std::optional<uint64_t> packed_bytes() const;
  // Called now and then while it decodes; true ends the check early (finish() then says nothing of value).
  std::function<bool()> stop{};

 private:
  enum class Stage : uint8_t { kHeader, kStreams, kRest };
  Bytes take_header(Bytes bytes);
  Bytes take_payload(Bytes bytes);
  size_t decode(const std::byte* from, size_t bytes);
  void start_stream();
  void fail_stream(RansFault fault);

  const RansTable& table_;
  uint64_t record_bytes_;
  std::vector<std::byte> header_;
  std::vector<uint32_t> steps_;  // by slot: its symbol's frequency, and its place in the symbol's band
  Stage stage_ = Stage::kHeader;
  std::optional<RansFailure> frame_failure_;
  std::optional<RansFailure> stream_failure_;
  bool pad_nonzero_ = false;
  bool sound_frame_ = false;
  uint64_t symbols_ = 0;
  uint64_t packed_bytes_ = 0;
  uint64_t payload_left_ = 0;
  std::array<uint32_t, kRansStreams> lengths_{};
  // Of the stream at hand.
  uint32_t stream_ = 0;
  uint64_t bytes_left_ = 0;
  uint64_t symbols_left_ = 0;
  uint32_t state_ = 0;
  uint32_t state_bytes_ = 0;  // of the initial state
  bool canonical_ = true;
  bool free_symbols_ = false;  // the table's only symbol costs no bits
};

}  // namespace tftf::colibri
