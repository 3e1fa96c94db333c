// Codes of compressed-tensors as floats, a run of a row at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tftf::ct {

// Fields [first, first + count) of a row of I32 words, signed: field minus 2^(bits-1). `first` is a multiple of 64. Padded:
// 32 / bits fields to a word, none across two.
void unpack_fields(const std::byte* row, uint32_t bits, bool padded, uint64_t first, uint64_t count,
                   float* out) noexcept;
// E2M1 codes, the low nibble first.
void unpack_pairs(const std::byte* codes, uint64_t count, float* out) noexcept;
// The number of bits set among the first `count`, the lowest of each byte first.
uint64_t set_bits(const std::byte* mask, uint64_t count) noexcept;
// `count` elements of `size` bytes (at most 8), zero where the mask has no bit, else the next of `stored`. Returns how many
// of those were taken.
uint64_t spread_stored(const std::byte* mask, uint64_t count, uint64_t size, const std::byte* stored,
                       std::byte* out) noexcept;

}  // namespace tftf::ct
