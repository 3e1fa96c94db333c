#include "quant/colibri/rans_frame.h"

#include <algorithm>

namespace tftf::colibri {

std::optional<RansFailure> read_rans_frame(Bytes header, uint64_t record_bytes, RansFrame& frame) {
  using enum RansFault;
  const auto failure = [](RansFault fault, std::string detail) {
    return RansFailure{fault, std::move(detail)};
  };
  if (record_bytes < kRansRecordHeader)
    return failure(kTruncated,
                   "the record has " + std::to_string(record_bytes) + " bytes, its header needs 1056");
  frame.symbols = load_le<uint64_t>(header.data());
  frame.bytes = load_le<uint64_t>(header.data() + 8);
  if (frame.symbols == 0) return failure(kEmpty, "the record holds no symbols");
  if (frame.bytes != frame.symbols / 2 + frame.symbols % 2)
    return failure(kCountMismatch, std::to_string(frame.symbols) + " symbols in " +
                                       std::to_string(frame.bytes) + " packed bytes");
  for (uint32_t i = 0; i <= kRansStreams; ++i)
    frame.offsets[i] = load_le<uint32_t>(header.data() + 16 + 4 * i);
  const auto& offsets = frame.offsets;
  if (offsets[0] != 0)
    return failure(kOffsetFirst, "the first stream begins at " + std::to_string(offsets[0]));
  for (uint32_t i = 0; i < kRansStreams; ++i)
    if (offsets[i + 1] < offsets[i])
      return failure(kOffsetsMonotonic, "stream " + std::to_string(i) + " ends before it begins");
  for (uint32_t i = 0; i < kRansStreams; ++i)
    if (frame.stream_bytes(i) < 4)
      return failure(kStreamShort, "stream " + std::to_string(i) + " has under 4 bytes");
  frame.payload = offsets[kRansStreams];
  const uint64_t padded = (kRansRecordHeader + frame.payload + 15) / 16 * 16;
  if (padded > record_bytes) return failure(kTruncated, "the payload runs past the record");
  if (padded < record_bytes)
    return failure(kLengthMismatch, std::to_string(record_bytes) + " bytes where " + std::to_string(padded) +
                                        " are described");
  if (frame.symbols > frame.payload << 18)  // 8 bits of payload a byte, at most 2^15 symbols a bit
    return failure(kOversize, std::to_string(frame.symbols) + " symbols from " +
                                  std::to_string(frame.payload) + " bytes");
  const Bytes padding = header.subspan(16 + 4 * (kRansStreams + 1), 12);
  frame.pad_nonzero =
      std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; });
  return std::nullopt;
}

}  // namespace tftf::colibri
