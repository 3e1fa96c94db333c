// Buffers of steps: aligned, not initialised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "tftf/plan/plan.h"

namespace tftf {

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kSlotAlign)); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

// Null when there is not enough memory.
inline AlignedBytes aligned_bytes(uint64_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(::operator new[](
      static_cast<size_t>(std::max<uint64_t>(bytes, 1)), std::align_val_t(kSlotAlign), std::nothrow)));
}

}  // namespace tftf
