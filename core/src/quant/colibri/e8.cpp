#include "tftf/quant/colibri/e8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "simd/e8_lattice.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf::colibri {
namespace {

constexpr uint64_t kLongestBlock = 32768;
constexpr size_t kSubBlock = 32;  // weights that share a sub-scale code
constexpr size_t kQuads = 8;      // grid entries of a sub-block

// Sum of 128 values as numpy's pairwise summation makes it: eight interleaved partial sums, then a tree.
float sum128(const float* x) {
  float r[8];
  for (int j = 0; j < 8; ++j) r[j] = x[j];
  for (int i = 8; i < 128; i += 8)
    for (int j = 0; j < 8; ++j) r[j] += x[i + j];
  return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

// The super-scale before rounding to binary16.
float super_scale(const std::array<float, kE8Block>& magnitude) {
  std::array<float, kE8Block> square;
  for (size_t i = 0; i < kE8Block; ++i) square[i] = magnitude[i] * magnitude[i];
  const float mean = (sum128(square.data()) + sum128(square.data() + 128)) / 256.0f;
  return std::sqrt(mean) / 20.0f + 1e-12f;
}

// Seven sign bits per eight weights; the eighth is their parity, so an odd number of negatives costs the
// smallest magnitude its sign.
std::array<uint32_t, kE8Block / 8> sign_words(std::span<const float, kE8Block> values,
                                              const std::array<float, kE8Block>& magnitude) {
  std::array<uint32_t, kE8Block / 8> words{};
  for (size_t w = 0; w < words.size(); ++w) {
    uint32_t bits = 0;
    size_t smallest = 0;
    for (size_t j = 0; j < 8; ++j) {
      if (values[8 * w + j] < 0.0f) bits |= 1u << j;
      if (magnitude[8 * w + j] < magnitude[8 * w + smallest]) smallest = j;
    }
    if (__builtin_popcount(bits) % 2 != 0) bits ^= 1u << smallest;
    words[w] = bits & 0x7F;
  }
  return words;
}

// Butterflies at distance 1, 2, 4 …, then one division by sqrt(length).
void hadamard(float* x, uint64_t length) noexcept {
  for (uint64_t h = 1; h < length; h *= 2)
    for (uint64_t i = 0; i < length; i += 2 * h)
      for (uint64_t j = i; j < i + h; ++j) {
        const float u = x[j];
        const float v = x[j + h];
        x[j] = u + v;
        x[j + h] = u - v;
      }
  const float root = std::sqrt(static_cast<float>(length));
  for (uint64_t i = 0; i < length; ++i) x[i] /= root;
}

}  // namespace

std::vector<float> e8_signs(uint64_t n) {
  std::vector<float> signs(to_size(n));
  uint64_t s = 417 + n;
  uint32_t byte = 0;
  for (uint64_t i = 0; i < n; ++i) {
    if (i % 8 == 0) {
      s ^= s >> 12;
      s ^= s << 25;
      s ^= s >> 27;
      byte = static_cast<uint32_t>(s * 2685821657736338717u >> 56);
    }
    signs[to_size(i)] = byte >> (i % 8) & 1 ? -1.0f : 1.0f;
  }
  return signs;
}

std::vector<uint64_t> e8_blocks(uint64_t columns) {
  std::vector<uint64_t> blocks;
  for (uint64_t left = columns; left > 0; left -= blocks.back()) {
    uint64_t block = left & (~left + 1);
    while (block > kLongestBlock) block /= 2;
    blocks.push_back(block);
  }
  return blocks;
}

E8Rotation::E8Rotation(uint64_t columns) {
  uint64_t begin = 0;
  for (uint64_t length : e8_blocks(columns)) {
    // Equal blocks share their stream: it depends on the length only.
    const auto same =
        std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.length == length; });
    const size_t signs = same != blocks_.end() ? same->signs : signs_.size();
    if (same == blocks_.end()) {
      const auto stream = e8_signs(length);
      signs_.insert(signs_.end(), stream.begin(), stream.end());
    }
    blocks_.push_back({begin, length, signs});
    begin += length;
  }
}

void E8Rotation::forward(std::span<float> row) const noexcept {
  for (const Block& block : blocks_) {
    float* x = row.data() + block.begin;
    for (uint64_t i = 0; i < block.length; ++i) x[i] *= signs_[to_size(block.signs + i)];
    hadamard(x, block.length);
  }
}

void E8Rotation::inverse(std::span<float> row) const noexcept {
  for (const Block& block : blocks_) {
    float* x = row.data() + block.begin;
    hadamard(x, block.length);
    for (uint64_t i = 0; i < block.length; ++i) x[i] *= signs_[to_size(block.signs + i)];
  }
}

void encode_e8_block(const KernelTable& kernels, std::span<const float, kE8Block> values,
                     std::span<std::byte, kE8BlockBytes> block) noexcept {
  std::array<float, kE8Block> magnitude;
  for (size_t i = 0; i < kE8Block; ++i) magnitude[i] = std::fabs(values[i]);
  const auto words = sign_words(values, magnitude);
  const uint16_t code = f16_from_f32(super_scale(magnitude));
  const float d = f32_from_f16(code);
  for (size_t b = 0; b < kE8Block / kSubBlock; ++b) {
    uint8_t index[kQuads];
    uint32_t word = kernels.search_e8(magnitude.data() + kSubBlock * b, d, index) << 28;
    std::memcpy(block.data() + kQuads * b, index, kQuads);
    for (size_t l = 0; l < 4; ++l) word |= words[4 * b + l] << (7 * l);
    store_le<uint32_t>(block.data() + 64 + 4 * b, word);
  }
  store_le<uint16_t>(block.data() + 96, code);
}

void decode_e8_block(std::span<const std::byte, kE8BlockBytes> block,
                     std::span<float, kE8Block> values) noexcept {
  const float d = f32_from_f16(load_le<uint16_t>(block.data() + 96));
  for (size_t b = 0; b < kE8Block / kSubBlock; ++b) {
    const auto word = load_le<uint32_t>(block.data() + 64 + 4 * b);
    const float db = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (size_t l = 0; l < 4; ++l) {
      uint32_t signs = word >> (7 * l) & 0x7F;
      if (__builtin_popcount(signs) % 2 != 0) signs |= 0x80;
      for (size_t j = 0; j < 8; ++j) {
        const size_t i = kSubBlock * b + 8 * l + j;
        const auto entry = static_cast<size_t>(block[i / 4]);
        const float m = simd::kE8Lattice.plane[i % 4][entry];
        values[i] = (signs >> j & 1 ? -m : m) * db;
      }
    }
  }
}

}  // namespace tftf::colibri
