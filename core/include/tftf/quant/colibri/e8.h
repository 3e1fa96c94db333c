// e8-iq3-lattice (fmt6): rotated rows coded on a lattice of 256 four-vectors (spec colibri 1.7).
//
// Numeric contract: binary32 without fused multiply-add, orders as stated per function. Encoding is a search
// over all entries; ties go to the lowest index and the lowest sub-scale code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tftf/simd/kernels.h"

namespace tftf::colibri {

inline constexpr uint64_t kE8Block = 256;      // weights of a super-block
inline constexpr uint64_t kE8BlockBytes = 98;  // its bytes
inline constexpr float kE8Tag = 6.0f;          // the one value of NAME.qs

// Sign stream S(n): n values of +1 or -1 (xorshift64*, seed 417 + n, bits of the top byte from the lowest; 1
// is negative).
std::vector<float> e8_signs(uint64_t n);

// Block lengths into which a row of `columns` is cut: the lowest set bit of what remains, halved while above
// 32768.
std::vector<uint64_t> e8_blocks(uint64_t columns);

// Rotation of rows in place: per block sign flips, then the normalised fast Walsh-Hadamard transform
// (butterflies h = 1, 2, 4 …; one division by sqrtf(length) at the end). Holds the sign streams of its row
// length.
class E8Rotation {
 public:
  explicit E8Rotation(uint64_t columns);
  void forward(std::span<float> row) const noexcept;
  // The transform first, then the signs: forward's inverse up to rounding.
  void inverse(std::span<float> row) const noexcept;

 private:
  struct Block {
    uint64_t begin;
    uint64_t length;
    size_t signs;  // offset in signs_
  };
  std::vector<Block> blocks_;
  std::vector<float> signs_;
};

// Encodes one super-block of 256 finite rotated values to 98 bytes.
void encode_e8_block(const KernelTable& kernels, std::span<const float, kE8Block> values,
                     std::span<std::byte, kE8BlockBytes> block) noexcept;

// Decodes one super-block: w = (stored * 0.5) * sign * ((d * (0.5 + c)) * 0.5), left to right.
void decode_e8_block(std::span<const std::byte, kE8BlockBytes> block,
                     std::span<float, kE8Block> values) noexcept;

}  // namespace tftf::colibri
