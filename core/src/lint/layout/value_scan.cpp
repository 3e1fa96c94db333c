// Scales and codes of a piece of the data pass.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/checked.h"
#include "tftf/lint/quant_check.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

void join_first(uint64_t& count, uint64_t& first, uint64_t other_count, uint64_t other_first) {
  if (other_count == 0) return;
  first = count == 0 ? other_first : std::min(first, other_first);
  count += other_count;
}

bool any_value(Bytes codes, uint8_t mask) {
  return std::any_of(codes.begin(), codes.end(),
                     [&](std::byte code) { return (static_cast<uint8_t>(code) & mask) != 0; });
}

// The codes under one scale, which is in column `column` of its row; `codes` are those of the scale's row.
bool block_has_value(const ScaleCheck& check, uint64_t column, Bytes codes) {
  const uint64_t begin = column * check.block_bytes;
  if (begin >= check.row_bytes) return false;
  const uint64_t length = std::min(check.block_bytes, check.row_bytes - begin);
  for (uint64_t row = 0; row + check.row_bytes <= codes.size(); row += check.row_bytes)
    if (any_value(codes.subspan(to_size(row + begin), to_size(length)), check.value_mask)) return true;
  return false;
}

}  // namespace

void ScaleSeen::merge(const ScaleSeen& other) {
  join_first(lost, first_lost, other.lost, other.first_lost);
  join_first(negative, first_negative, other.negative, other.first_negative);
}

ScaleSeen scan_scales(const ScaleCheck& check, DType dtype, uint64_t first, Bytes scales, Bytes codes) {
  ScaleSeen seen;
  const uint64_t width = dtype_bits(dtype) / 8;
  const uint64_t count = scales.size() / width;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = element_as_f64(dtype, scales.data(), i);
    const bool negative =
        value < 0 ? std::isfinite(value) : value == 0 && std::signbit(value) && dtype == DType::F8_E4M3;
    if (negative) join_first(seen.negative, seen.first_negative, 1, first + i);
    if (value != 0 || codes.empty() || check.scale_columns == 0) continue;
    const uint64_t stride = check.block_rows * check.row_bytes;
    const uint64_t begin = i / check.scale_columns * stride;
    if (begin >= codes.size()) continue;
    const Bytes rows =
        codes.subspan(to_size(begin), to_size(std::min<uint64_t>(stride, codes.size() - begin)));
    if (block_has_value(check, i % check.scale_columns, rows))
      join_first(seen.lost, seen.first_lost, 1, first + i);
  }
  return seen;
}

bool has_nonzero(DType dtype, Bytes bytes) {
  const size_t width = dtype_bits(dtype) / 8;
  const DTypeClass kind = dtype_info(dtype).kind;
  // The sign is the top bit of the last byte of an element; FNUZ formats have no -0, and E8M0 has no sign.
  const bool fnuz = dtype == DType::F8_E4M3FNUZ || dtype == DType::F8_E5M2FNUZ || dtype == DType::F8_E8M0;
  const bool sign = kind == DTypeClass::kFloat && !fnuz;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    for (size_t i = 0; i < width; ++i) {
      const uint8_t mask = sign && i + 1 == width ? 0x7F : 0xFF;
      if ((static_cast<uint8_t>(bytes[at + i]) & mask) != 0) return true;
    }
  }
  return false;
}

}  // namespace tftf
