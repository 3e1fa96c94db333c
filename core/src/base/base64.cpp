#include "tftf/base/base64.h"

#include <cstdint>

namespace tftf {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// 0..63, or 64.
uint32_t base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<uint32_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<uint32_t>(c - 'a') + 26;
  if (c >= '0' && c <= '9') return static_cast<uint32_t>(c - '0') + 52;
  return c == '+' ? 62 : c == '/' ? 63 : 64;
}

}  // namespace

std::string encode_base64(Bytes bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = bytes.size() - at < 3 ? bytes.size() - at : 3;
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<uint32_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    size_t padding = 0;
    if (at + 4 == text.size() && text[at + 3] == '=') padding = text[at + 2] == '=' ? 2 : 1;
    uint32_t group = 0;
    for (size_t i = 0; i < 4; ++i) {
      const uint32_t value = i < 4 - padding ? base64_value(text[at + i]) : 0;
      if (value == 64) return std::nullopt;
      group = group << 6 | value;
    }
    if ((group & ((1u << 8 * padding) - 1)) != 0) return std::nullopt;
    for (size_t i = 0; i < 3 - padding; ++i) bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * i)));
  }
  return bytes;
}

}  // namespace tftf
