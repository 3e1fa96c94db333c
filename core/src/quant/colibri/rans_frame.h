// A record's header and what holds of it before any stream is decoded (spec colibri 1.10, 4.4).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tftf/quant/colibri/rans.h"

namespace tftf::colibri {

// States live in [kRansLowest, 256 * kRansLowest): a coder's first state is below the upper bound, and a decoder that
// starts there retraces its steps, so that nothing else can re-encode to the same bytes.
inline constexpr uint32_t kRansLowest = 1u << 23;
inline constexpr uint32_t kRansHighest = 1u << 31;

struct RansFrame {
  uint64_t symbols = 0;
  uint64_t bytes = 0;  // packed
  uint64_t payload = 0;
  std::array<uint32_t, kRansStreams + 1> offsets{};
  bool pad_nonzero = false;  // of the header's own padding

  uint64_t stream_bytes(uint32_t stream) const { return offsets[stream + 1] - offsets[stream]; }
  uint64_t stream_symbols(uint32_t stream) const {
    return stream < symbols ? (symbols - stream - 1) / kRansStreams + 1 : 0;
  }
};

// `header`: the record's first bytes, kRansRecordHeader of them unless the record is shorter. Faults from kTruncated to
// kOversize in their order.
std::optional<RansFailure> read_rans_frame(Bytes header, uint64_t record_bytes, RansFrame& frame);

}  // namespace tftf::colibri
