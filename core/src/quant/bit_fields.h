// Small integers as fields of 32-bit words: GPTQ's and AWQ's codes and zero points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tftf/base/checked.h"

namespace tftf {

// Fields of 2, 3, 4 or 8 bits follow each other through the bits of words, the lowest first; those of 3 bits cross words.
// So many fields fill whole words.
constexpr uint64_t fields_at_once(uint32_t bits) { return bits == 3 ? 32 : 32 / bits; }

inline uint32_t load_word(const std::byte* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
inline void store_word(std::byte* at, uint32_t word) { std::memcpy(at, &word, sizeof word); }

// The field that begins at a bit of a run of words which holds it whole.
inline uint32_t field_at(const std::byte* words, uint64_t bit, uint32_t bits) {
  const std::byte* at = words + to_size(bit / 32 * 4);
  const auto shift = static_cast<uint32_t>(bit % 32);
  uint32_t value = load_word(at) >> shift;
  if (shift + bits > 32) value |= load_word(at + 4) << (32 - shift);
  return value & ((1u << bits) - 1);
}

// Calls put(index, field) for all fields of `count` words; 3 bits: `count` is a multiple of three.
template <uint32_t kBits, class Put>
inline void each_field(const std::byte* words, uint64_t count, Put put) {
  constexpr uint32_t kMask = (1u << kBits) - 1;
  uint64_t k = 0;
  if constexpr (kBits == 3) {
    for (uint64_t i = 0; i < count; i += 3) {
      const uint64_t low = load_word(words) | uint64_t{load_word(words + 4)} << 32;
      const uint64_t high = low >> 63 | uint64_t{load_word(words + 8)} << 1;
      for (uint32_t j = 0; j < 21; ++j) put(k + j, static_cast<uint32_t>(low >> 3 * j) & kMask);
      for (uint32_t j = 0; j < 11; ++j) put(k + 21 + j, static_cast<uint32_t>(high >> 3 * j) & kMask);
      words += 12;
      k += 32;
    }
  } else {
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t word = load_word(words);
      for (uint32_t j = 0; j < 32 / kBits; ++j) put(k + j, word >> kBits * j & kMask);
      words += 4;
      k += 32 / kBits;
    }
  }
}

// Field i of a word of AWQ's GEMM packing holds column kAwqOrder[i] of its eight.
inline constexpr std::array<uint8_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

// Eight words of eight nibbles, eight times beside each other: nibble j of word i becomes nibble i of word j. Written by lanes,
// so that compilers make vectors of it.
using NibbleLanes = std::array<std::array<uint32_t, 8>, 8>;  // [word][lane]
inline void transpose_nibbles(NibbleLanes& words) {
  for (size_t i = 0; i < 4; ++i) {  // halves of words
    for (size_t l = 0; l < 8; ++l) {
      const uint32_t a = words[i][l], b = words[i + 4][l];
      words[i][l] = (a & 0x0000FFFFu) | b << 16;
      words[i + 4][l] = a >> 16 | (b & 0xFFFF0000u);
    }
  }
  for (size_t i = 0; i < 8; i += i % 2 == 1 ? 3 : 1) {  // bytes: 0 with 2, 1 with 3, 4 with 6, 5 with 7
    for (size_t l = 0; l < 8; ++l) {
      const uint32_t a = words[i][l], b = words[i + 2][l];
      words[i][l] = (a & 0x00FF00FFu) | (b & 0x00FF00FFu) << 8;
      words[i + 2][l] = (a >> 8 & 0x00FF00FFu) | (b & 0xFF00FF00u);
    }
  }
  for (size_t i = 0; i < 8; i += 2) {
    for (size_t l = 0; l < 8; ++l) {
      const uint32_t a = words[i][l], b = words[i + 1][l];
      words[i][l] = (a & 0x0F0F0F0Fu) | (b & 0x0F0F0F0Fu) << 4;
      words[i + 1][l] = (a >> 4 & 0x0F0F0F0Fu) | (b & 0xF0F0F0F0u);
    }
  }
}

}  // namespace tftf
