// SHA-256 (FIPS 180-4): names plans, headers and findings. Not for bulk data: natively whole files are hashed
// by the host's faster library.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tftf/base/bytes.h"

namespace tftf {

class Sha256 {
 public:
  // Any number of bytes, in any number of calls.
  void update(Bytes bytes);
  void update(std::string_view text) { update(as_bytes(text)); }
  // The digest of everything so far; the object is spent then.
  std::array<std::byte, 32> digest();
  // digest() as 64 lower-case hexadecimal digits.
  std::string hex_digest();

 private:
  void block(const std::byte* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  uint64_t length_ = 0;
};

// Lower-case hexadecimal digits of the digest of `bytes`.
std::string sha256_hex(Bytes bytes);
inline std::string sha256_hex(std::string_view text) { return sha256_hex(as_bytes(text)); }

// Bytes as lower-case hexadecimal digits.
std::string hex_text(Bytes bytes);

}  // namespace tftf
