// Sizes as people write and read them (spec cli 1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tftf/base/result.h"

namespace tftf {

// "1048576", "5GB", "5GiB", "1.5 MB", "64k": decimal units K M G T P (with or without B) and binary Ki Mi Gi
// Ti Pi, case ignored; a fraction of a byte is dropped. Error kUsage: not a size, negative, or beyond 2^64-1.
Result<uint64_t> parse_size(std::string_view text);

// "812 bytes", "1.50 KiB", "652.3 GiB": three or four significant digits, binary units.
std::string size_text(uint64_t bytes);

// "1,234,567".
std::string grouped_digits(uint64_t value);

// value / divisor with `decimals` (at most 9) digits after the point, rounded to nearest, ties to even: what
// printf would give for the exact quotient; 0 < divisor <= 2^60.
std::string ratio_text(uint64_t value, uint64_t divisor, uint32_t decimals);

}  // namespace tftf
