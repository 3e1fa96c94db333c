// Checked arithmetic for every length, product and sum that comes from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tftf {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
// A length or position of bytes in memory as size_t. Where that has 32 bits, a value beyond them ends the program: data
// so long cannot be there, and a cut length would be a wrong one.
constexpr size_t to_size(uint64_t value) {
  if constexpr (sizeof(size_t) < sizeof(uint64_t)) {
    if (value > SIZE_MAX) __builtin_trap();
  }
  return static_cast<size_t>(value);
}
// Quotient rounded up; b > 0.
constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
// a rounded up to a multiple of b, or nothing on overflow; b > 0.
inline std::optional<uint64_t> checked_round_up(uint64_t a, uint64_t b) {
  return checked_mul(ceil_div(a, b), b);
}

}  // namespace tftf
