#include "tftf/base/crc32.h"

#include <array>

namespace tftf {
namespace {

// Slicing by eight: table[k][b] is the CRC of byte b followed by k zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(Bytes bytes, uint32_t crc) {
  crc = ~crc;
  size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    const auto word = load_le<uint64_t>(bytes.data() + at) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (; at < bytes.size(); ++at) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<uint32_t>(bytes[at])) & 255];
  return ~crc;
}

std::string crc32_hex(Bytes bytes) {
  const uint32_t crc = crc32(bytes);
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[crc >> shift & 15];
  return text;
}

}  // namespace tftf
