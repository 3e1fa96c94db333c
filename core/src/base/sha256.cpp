#include "tftf/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tftf {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_be(const std::byte* from) { return __builtin_bswap32(load_le<uint32_t>(from)); }

}  // namespace

void Sha256::block(const std::byte* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = load_be(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

void Sha256::update(Bytes bytes) {
  const size_t held = static_cast<size_t>(length_ % 64);
  length_ += bytes.size();
  if (held != 0) {
    const size_t take = std::min(bytes.size(), 64 - held);
    std::copy_n(bytes.begin(), take, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(take);
    if (held + take < 64) return;
    block(pending_.data());
  }
  while (bytes.size() >= 64) {
    block(bytes.data());
    bytes = bytes.subspan(64);
  }
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::array<std::byte, 32> Sha256::digest() {
  const uint64_t bits = length_ * 8;
  std::array<std::byte, 72> tail{std::byte{0x80}};
  const size_t padding = 1 + static_cast<size_t>((119 - length_ % 64) % 64);
  store_le(tail.data() + padding, __builtin_bswap64(bits));
  update(Bytes(tail.data(), padding + 8));
  std::array<std::byte, 32> out;
  for (size_t i = 0; i < 8; ++i) store_le(out.data() + 4 * i, __builtin_bswap32(state_[i]));
  return out;
}

std::string Sha256::hex_digest() { return hex_text(digest()); }

std::string sha256_hex(Bytes bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

std::string hex_text(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

}  // namespace tftf
