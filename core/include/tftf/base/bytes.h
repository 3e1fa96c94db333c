// Byte spans and little-endian access. The format is little-endian; so are all supported hosts (checked
// here).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tftf {

static_assert(std::endian::native == std::endian::little, "safetensors data is used in place");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Unaligned little-endian load / store of a trivially copyable T.
template <class T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store_le(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// std::bit_cast for toolchains whose library lacks it.
template <class To, class From>
constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tftf
