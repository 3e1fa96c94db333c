// XXH3-128 of contents: tells equal bytes from different ones quickly. Not cryptographic: where somebody may
// have chosen the bytes, equal hashes are a reason to compare them.
#pragma once

#include <cstdint>

#include "tftf/base/bytes.h"

namespace tftf {

struct ContentHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

// The same on every host (XXH3, 128 bits, seed 0).
ContentHash content_hash(Bytes bytes) noexcept;

}  // namespace tftf
