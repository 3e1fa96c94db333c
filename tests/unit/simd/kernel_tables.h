// What the kernel tests share: every available table is held against the scalar one, on buffers that start at
// odd addresses and have guard bytes around what may be written.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/simd/kernels.h"

namespace tftf::test {

inline constexpr uint32_t kSeed = 20240607;

// The tables beside the scalar one.
inline std::span<const KernelTable* const> vector_tables() { return available_kernels().subspan(1); }

// `size` bytes at an address that is `misalignment` past a multiple of 64.
class Buffer {
 public:
  explicit Buffer(size_t size, size_t misalignment = 0)
      : storage_(size + 2 * kGuard + 128, std::byte{0xA5}), size_(size) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    at_ = kGuard + (64 - address % 64) % 64 + misalignment % 64;
  }
  std::byte* data() { return storage_.data() + at_; }
  const std::byte* data() const { return storage_.data() + at_; }
  size_t size() const { return size_; }
  bool guards_intact() const {
    for (size_t i = 0; i < storage_.size(); ++i)
      if ((i < at_ || i >= at_ + size_) && storage_[i] != std::byte{0xA5}) return false;
    return true;
  }
  bool operator==(const Buffer& other) const {
    return size_ == other.size_ && (size_ == 0 || std::memcmp(data(), other.data(), size_) == 0);
  }

 private:
  static constexpr size_t kGuard = 64;
  std::vector<std::byte> storage_;
  size_t size_, at_ = 0;
};

// The 32-bit patterns where rounding and classification change: around every power of two, limits and NaN.
inline std::vector<uint32_t> interesting_f32() {
  std::vector<uint32_t> bits;
  for (uint32_t top = 0; top < 0x200; ++top)
    for (uint32_t low : {0x0u, 0x1u, 0xFFFu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7FFFu, 0x8000u, 0x8001u,
                         0x18000u, 0x400000u, 0x7FFFFFu, 0x7FF000u, 0x7FEFFFu, 0x7F8000u, 0x7F7FFFu})
      bits.push_back(top << 23 | low);
  return bits;
}

}  // namespace tftf::test
