// The few bytes of data that the CO rules look at without --data: E8 tags and the heads of range-coded records.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/container/header.h"
#include "tftf/quant/colibri/rans.h"

namespace tftf {

class ColibriReads {
 public:
  // What of a sound file is to be read: ranges in the file, none longer than kMaxRange. Tags that lie near each other
  // are read at once.
  static constexpr uint64_t kMaxRange = 1 << 16;
  void choose(const HeaderScan& scan);
  const std::vector<ByteRange>& ranges() const { return ranges_; }
  void supply(const HeaderScan& scan, ByteRange range, Bytes bytes);

  // The one F32 of NAME.qs.
  std::optional<float> tag(uint32_t tensor) const;
  // A record's head: how many bytes it decodes to, or what is wrong with it.
  struct Record {
    uint64_t packed_bytes = 0;
    std::optional<colibri::RansFailure> failure;
    uint32_t longest_stream = 0;
  };
  const Record* record(uint32_t tensor) const;

 private:
  std::vector<ByteRange> ranges_;
  std::vector<std::pair<uint64_t, uint32_t>> wanted_;  // file offset and tensor, by offset
  std::unordered_map<uint32_t, float> tags_;
  std::unordered_map<uint32_t, Record> records_;
};

}  // namespace tftf
