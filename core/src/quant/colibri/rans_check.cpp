#include "tftf/quant/colibri/rans_check.h"

#include <algorithm>

#include "quant/colibri/rans_frame.h"
#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr uint64_t kSymbolsBetweenStops = 1 << 22;

bool any_set(Bytes bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

RansRecordCheck::RansRecordCheck(const RansTable& table, uint64_t record_bytes)
    : table_(table), record_bytes_(record_bytes) {
  for (const uint32_t f : table.freq) free_symbols_ = free_symbols_ || f == 1u << table.scale_bits;
  steps_.reserve(table.slots.size());
  for (uint32_t slot = 0; slot < table.slots.size(); ++slot) {
    const uint32_t symbol = table.slots[slot];
    steps_.push_back(table.freq[symbol] << 16 | (slot - table.start[symbol]));
  }
  if (record_bytes_ >= kRansRecordHeader) return;
  RansFrame frame;
  frame_failure_ = read_rans_frame({}, record_bytes_, frame);
  stage_ = Stage::kRest;
}

std::optional<uint64_t> RansRecordCheck::packed_bytes() const {
  return sound_frame_ ? std::optional(packed_bytes_) : std::nullopt;
}

void RansRecordCheck::feed(Bytes bytes) {
  if (frame_failure_) return;
  if (stage_ == Stage::kHeader) bytes = take_header(bytes);
  if (frame_failure_) return;
  if (stage_ == Stage::kStreams) bytes = take_payload(bytes);
  if (stage_ == Stage::kRest) pad_nonzero_ = pad_nonzero_ || any_set(bytes);
}

Bytes RansRecordCheck::take_header(Bytes bytes) {
  const size_t wanted = to_size(kRansRecordHeader) - header_.size();
  const size_t count = std::min(wanted, bytes.size());
  header_.insert(header_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  if (count != wanted) return {};
  RansFrame frame;
  frame_failure_ = read_rans_frame(header_, record_bytes_, frame);
  if (frame_failure_) return {};
  sound_frame_ = true;
  pad_nonzero_ = frame.pad_nonzero;
  symbols_ = frame.symbols;
  packed_bytes_ = frame.bytes;
  payload_left_ = frame.payload;
  for (uint32_t i = 0; i < kRansStreams; ++i) lengths_[i] = static_cast<uint32_t>(frame.stream_bytes(i));
  stage_ = Stage::kStreams;
  start_stream();
  return bytes.subspan(count);
}

void RansRecordCheck::start_stream() {
  bytes_left_ = lengths_[stream_];
  symbols_left_ = stream_ < symbols_ ? (symbols_ - stream_ - 1) / kRansStreams + 1 : 0;
  state_ = state_bytes_ = 0;
}

void RansRecordCheck::fail_stream(RansFault fault) {
  stream_failure_ = RansFailure{fault, "stream " + std::to_string(stream_)};
}

Bytes RansRecordCheck::take_payload(Bytes bytes) {
  while (!bytes.empty() && payload_left_ > 0) {
    if (stream_failure_) {  // only the padding behind the payload is still looked at
      const auto skipped = static_cast<size_t>(std::min<uint64_t>(payload_left_, bytes.size()));
      payload_left_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const auto count = static_cast<size_t>(std::min<uint64_t>(bytes_left_, bytes.size()));
    const size_t used = decode(bytes.data(), count);
    payload_left_ -= used;
    bytes_left_ -= used;
    bytes = bytes.subspan(used);
    if (stream_failure_ || bytes_left_ > 0) continue;
    if (++stream_ < kRansStreams) start_stream();
  }
  if (payload_left_ == 0) stage_ = Stage::kRest;
  return bytes;
}

// Takes up to `bytes` bytes of the stream at hand and decodes as far as they go.
size_t RansRecordCheck::decode(const std::byte* from, size_t bytes) {
  size_t at = 0;
  for (; state_bytes_ < 4 && at < bytes; ++state_bytes_)
    state_ = state_ << 8 | static_cast<uint32_t>(from[at++]);
  if (state_bytes_ < 4) return at;
  if (at > 0 && bytes_left_ - at == lengths_[stream_] - 4u) {  // the first time
    if (state_ < kRansLowest) {
      fail_stream(RansFault::kStreamStateRange);
      return at;
    }
    canonical_ = state_ < kRansHighest;
    if (free_symbols_) symbols_left_ = 0;  // every step leaves the state as it is
  }
  const uint32_t mask = (1u << table_.scale_bits) - 1;
  const uint32_t bits = table_.scale_bits;
  const uint32_t* steps = steps_.data();
  uint32_t x = state_;
  uint64_t left = symbols_left_;
  uint64_t until_stop = kSymbolsBetweenStops;
  const auto step = [&] {
    const uint32_t one = steps[x & mask];
    x = (one >> 16) * (x >> bits) + (one & 0xFFFF);
    --left;
  };
  // Without branches while two bytes are at hand, the most that a state needs after a symbol.
  while (x >= kRansLowest && left > 0 && bytes - at >= 2 && --until_stop > 0) {
    step();
    for (int i = 0; i < 2; ++i) {
      const bool low = x < kRansLowest;
      x = low ? x << 8 | static_cast<uint32_t>(from[at]) : x;
      at += low ? 1 : 0;
    }
  }
  until_stop = kSymbolsBetweenStops;
  for (;;) {
    // A state below the lowest waits for a byte.
    while (x < kRansLowest && at < bytes) x = x << 8 | static_cast<uint32_t>(from[at++]);
    if (x < kRansLowest) {
      if (bytes_left_ == at) fail_stream(RansFault::kStreamUnderrun);
      break;
    }
    if (left == 0) break;
    if (--until_stop == 0) {
      until_stop = kSymbolsBetweenStops;
      if (stop && stop()) {
        fail_stream(RansFault::kStreamUnderrun);
        break;
      }
    }
    step();
  }
  state_ = x;
  symbols_left_ = left;
  if (stream_failure_ || x < kRansLowest) return at;
  if (bytes_left_ > at) {
    fail_stream(RansFault::kStreamLeftover);
  } else if (x != kRansLowest) {
    fail_stream(RansFault::kStreamFinalState);
  } else if (!canonical_) {
    fail_stream(RansFault::kReencodeMismatch);
  }
  return at;
}

std::optional<RansFailure> RansRecordCheck::finish() {
  if (frame_failure_) return frame_failure_;
  if (stage_ == Stage::kHeader || payload_left_ > 0)
    return RansFailure{RansFault::kTruncated, "the record was not read to its end"};
  if (pad_nonzero_) return RansFailure{RansFault::kPadNonzero, "padding bytes are not zero"};
  return stream_failure_;
}

}  // namespace tftf::colibri
