#include "tftf/base/utf8.h"

#include <cstring>
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Length of the sequence that `lead` opens, 0 when it opens none.
uint32_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

CodePoint code_point_at(std::string_view text, uint64_t at) {
  const auto lead = static_cast<unsigned char>(text[to_size(at)]);
  const uint32_t length = sequence_length(lead);
  if (length == 1) return {lead, 1, true};
  if (length == 0 || text.size() - at < length) return {lead, 1, false};
  uint32_t value = lead & (0xFFu >> (length + 1));
  for (uint32_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[to_size(at + i)]);
    if ((byte & 0xC0) != 0x80) return {lead, 1, false};
    value = value << 6 | (byte & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF) return {lead, 1, false};
  if (value >= 0xD800 && value <= 0xDFFF) return {value, 3, false};
  return {value, length, true};
}

std::optional<uint64_t> find_invalid_utf8(std::string_view text) {
  uint64_t at = 0;
  while (at < text.size()) {
    // Headers are nearly all ASCII: skip eight bytes at a time.
    while (text.size() - at >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if (word & 0x8080808080808080u) break;
      at += 8;
    }
    if (at >= text.size()) break;
    const CodePoint point = code_point_at(text, at);
    if (!point.valid) return at;
    at += point.length;
  }
  return std::nullopt;
}

void append_utf8(std::string& to, uint32_t code_point) {
  auto put = [&to](uint32_t byte) { to += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

uint64_t count_code_points(std::string_view text) {
  uint64_t count = 0;
  for (uint64_t at = 0; at < text.size(); at += code_point_at(text, at).length) ++count;
  return count;
}

}  // namespace tftf
