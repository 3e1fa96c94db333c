// Unpacks codes. What holds whole fields in a byte is cut into bytes first: loops that compilers turn into vectors.
#include "quant/ct/codes.h"

#include <array>
#include <cstring>

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

template <uint32_t kBits>
void unpack_bytes(const std::byte* row, uint64_t count, float* out) {
  constexpr uint32_t kFields = 8 / kBits;
  constexpr int32_t kHalf = 1 << (kBits - 1);
  const uint64_t whole = count / kFields;
  for (uint64_t i = 0; i < whole; ++i) {
    const auto byte = static_cast<uint32_t>(row[to_size(i)]);
    for (uint32_t k = 0; k < kFields; ++k)
      out[to_size(i * kFields + k)] =
          static_cast<float>(static_cast<int32_t>(byte >> (k * kBits) & ((1u << kBits) - 1)) - kHalf);
  }
  for (uint64_t i = whole * kFields; i < count; ++i)
    out[to_size(i)] = static_cast<float>(
        static_cast<int32_t>(static_cast<uint32_t>(row[to_size(whole)]) >> (i % kFields * kBits) &
                             ((1u << kBits) - 1)) -
        kHalf);
}

// Each nibble of eight becomes a byte, in their order; bytes become floats in a loop of their own.
void unpack_nibbles(const std::byte* row, uint64_t count, float* out) {
  constexpr uint64_t kAtOnce = 256;
  uint8_t bytes[kAtOnce];
  uint64_t done = 0;
  for (; done + kAtOnce <= count; done += kAtOnce) {
    for (uint64_t i = 0; i < kAtOnce / 8; ++i) {
      uint64_t x = load_le<uint32_t>(row + to_size(done / 2 + i * 4));
      x = (x | x << 16) & 0x0000FFFF0000FFFF;
      x = (x | x << 8) & 0x00FF00FF00FF00FF;
      x = (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
      std::memcpy(bytes + i * 8, &x, 8);
    }
    for (uint64_t i = 0; i < kAtOnce; ++i) out[to_size(done + i)] = static_cast<float>(bytes[i] - 8);
  }
  unpack_bytes<4>(row + to_size(done / 2), count - done, out + to_size(done));
}

// The values of both nibbles of a byte.
struct Pair {
  float low, high;
};
const std::array<Pair, 256>& pair_values() {
  static const std::array<Pair, 256> table = [] {
    std::array<Pair, 256> out{};
    for (size_t i = 0; i < 256; ++i) out[i] = {f4_values()[i & 15], f4_values()[i >> 4]};
    return out;
  }();
  return table;
}

// Without a branch on the bit: the next stored element, or nothing of it.
template <class T>
uint64_t spread(const std::byte* mask, uint64_t count, const std::byte* stored, std::byte* out) noexcept {
  const uint64_t total = set_bits(mask, count);
  uint64_t taken = 0, i = 0;
  for (; i < count && taken < total; ++i) {
    const auto bit = static_cast<uint64_t>(static_cast<uint8_t>(mask[to_size(i / 8)]) >> (i % 8) & 1);
    const T next = load_le<T>(stored + to_size(taken * sizeof(T)));
    store_le(out + to_size(i * sizeof(T)), static_cast<T>(next & static_cast<T>(0 - bit)));
    taken += bit;
  }
  std::memset(out + to_size(i * sizeof(T)), 0, to_size((count - i) * sizeof(T)));
  return taken;
}

}  // namespace

void unpack_fields(const std::byte* row, uint32_t bits, bool padded, uint64_t first, uint64_t count,
                   float* out) noexcept {
  switch (bits) {
    case 1:
      return unpack_bytes<1>(row + to_size(first / 8), count, out);
    case 2:
      return unpack_bytes<2>(row + to_size(first / 4), count, out);
    case 4:
      return unpack_nibbles(row + to_size(first / 2), count, out);
    case 8:
      return unpack_bytes<8>(row + to_size(first), count, out);
    default:
      break;
  }
  const uint32_t mask = (1u << bits) - 1, fields = 32 / bits;
  const int32_t half = 1 << (bits - 1);
  for (uint64_t i = first; i < first + count; ++i) {
    const uint64_t word = padded ? i / fields : i * bits / 32;
    const auto shift = static_cast<uint32_t>(padded ? i % fields * bits : i * bits % 32);
    uint32_t field = load_le<uint32_t>(row + to_size(word * 4)) >> shift;
    if (shift + bits > 32) field |= load_le<uint32_t>(row + to_size(word * 4 + 4)) << (32 - shift);
    out[to_size(i - first)] = static_cast<float>(static_cast<int32_t>(field & mask) - half);
  }
}

void unpack_pairs(const std::byte* codes, uint64_t count, float* out) noexcept {
  const std::array<Pair, 256>& table = pair_values();
  for (uint64_t i = 0; i < count / 2; ++i)
    std::memcpy(out + to_size(2 * i), &table[static_cast<uint8_t>(codes[to_size(i)])], sizeof(Pair));
  if (count % 2 != 0) out[to_size(count - 1)] = table[static_cast<uint8_t>(codes[to_size(count / 2)])].low;
}

uint64_t set_bits(const std::byte* mask, uint64_t count) noexcept {
  uint64_t bits = 0;
  for (uint64_t i = 0; i < count / 8; ++i)
    bits += static_cast<uint64_t>(__builtin_popcount(static_cast<uint8_t>(mask[to_size(i)])));
  if (count % 8 != 0)
    bits += static_cast<uint64_t>(
        __builtin_popcount(static_cast<uint8_t>(mask[to_size(count / 8)]) & ((1u << (count % 8)) - 1)));
  return bits;
}

uint64_t spread_stored(const std::byte* mask, uint64_t count, uint64_t size, const std::byte* stored,
                       std::byte* out) noexcept {
  switch (size) {
    case 1:
      return spread<uint8_t>(mask, count, stored, out);
    case 2:
      return spread<uint16_t>(mask, count, stored, out);
    case 4:
      return spread<uint32_t>(mask, count, stored, out);
    default:
      return spread<uint64_t>(mask, count, stored, out);
  }
}

}  // namespace tftf::ct
