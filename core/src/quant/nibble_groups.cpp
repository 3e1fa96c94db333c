// Tables of sixteen values, rounded before they are looked up in.
#include "quant/nibble_groups.h"

#include <array>

#include "tftf/base/bytes.h"

namespace tftf {
namespace {

constexpr uint32_t kMagnitudeBits = 0x7FFFFFFF, kInfiniteBits = 0x7F800000;

uint64_t round_values(const KernelTable& kernels, DType to, const float* from, uint64_t count,
                      std::byte* out) {
  const auto* bytes = reinterpret_cast<const std::byte*>(from);
  return to == DType::BF16 ? kernels.f32_to_bf16(bytes, out, count) : kernels.f32_to_f16(bytes, out, count);
}

uint32_t nibble_of(const NibbleGroups& groups, const std::byte* codes, uint64_t i) {
  const bool high = (i % 2 == 0) == groups.high_first;
  return static_cast<uint32_t>(codes[to_size(i / 2)]) >> (high ? 4 : 0) & 15;
}

// Bit c: value c of a table is infinite.
uint32_t infinite_values(const float* values) {
  uint32_t found = 0;
  for (uint32_t c = 0; c < kNibbleValues; ++c)
    found |= ((bit_cast<uint32_t>(values[c]) & kMagnitudeBits) == kInfiniteBits ? 1u : 0u) << c;
  return found;
}
uint32_t infinite_values(const uint16_t* values, DType to) {
  const uint16_t infinity = to == DType::BF16 ? 0x7F80 : 0x7C00;
  uint32_t found = 0;
  for (uint32_t c = 0; c < kNibbleValues; ++c) found |= ((values[c] & 0x7FFF) == infinity ? 1u : 0u) << c;
  return found;
}

uint64_t count_codes(const NibbleGroups& groups, const std::byte* codes, uint32_t which) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < groups.group_codes; ++i) found += which >> nibble_of(groups, codes, i) & 1;
  return found;
}

const std::byte* scale_table_of(const std::byte* tables, DType to) {
  return tables + (to == DType::F32    ? 0
                   : to == DType::BF16 ? 4 * kScaleTableEntries
                                       : 6 * kScaleTableEntries);
}
// Behind the tables: bit c of word s, code c is infinite under scale s.
uint64_t masks_at(DType to) {
  return 8 * kScaleTableEntries + (to == DType::F32 ? 0 : to == DType::BF16 ? 512 : 1024);
}

// `pairs` bytes of codes.
void look_up_floats(const float* values, bool high_first, const std::byte* codes, uint64_t pairs,
                    std::byte* out) {
  for (uint64_t i = 0; i < pairs; ++i) {
    const auto pair = static_cast<uint32_t>(codes[to_size(i)]);
    const float low = values[pair & 15], high = values[pair >> 4];
    store_le(out, high_first ? high : low);
    store_le(out + 4, high_first ? low : high);
    out += 8;
  }
}

}  // namespace

uint64_t decode_nibble_groups(const KernelTable& kernels, DType to, const NibbleGroups& groups, float* values,
                              std::byte* out) noexcept {
  const uint64_t count = groups.groups * kNibbleValues;
  bool special = kernels.largest_magnitude(values, count) >= kInfiniteBits;
  if (special) {
    for (uint64_t i = 0; i < count; ++i)
      if (values[i] != values[i]) values[i] = bit_cast<float>(0x7FC00000u);
  }
  alignas(16) std::array<uint16_t, kNibbleGroupsAtOnce * kNibbleValues> tables;
  if (to == DType::F32) {
    const uint64_t pairs = groups.group_codes / 2;
    for (uint64_t g = 0; g < groups.groups; ++g)
      look_up_floats(values + g * kNibbleValues, groups.high_first, groups.codes + to_size(g * pairs), pairs,
                     out + to_size(g * pairs * 8));
  } else {
    if (round_values(kernels, to, values, count, reinterpret_cast<std::byte*>(tables.data())) > 0)
      special = true;
    kernels.look_up_nibbles({.tables = tables.data(),
                             .codes = groups.codes,
                             .groups = groups.groups,
                             .group_bytes = groups.group_codes / 2,
                             .stride = groups.group_codes / 2,
                             .high_first = groups.high_first,
                             .out = out});
  }
  if (!special) return 0;
  uint64_t infinite = 0;
  for (uint64_t g = 0; g < groups.groups; ++g) {
    const uint32_t which = to == DType::F32 ? infinite_values(values + g * kNibbleValues)
                                            : infinite_values(tables.data() + g * kNibbleValues, to);
    if ((which & groups.finite) != 0)
      infinite +=
          count_codes(groups, groups.codes + to_size(g * groups.group_codes / 2), which & groups.finite);
  }
  return infinite;
}

void make_scale_tables(const KernelTable& kernels, const float* values, const float* scales,
                       const float* global, std::byte* tables) noexcept {
  auto* floats = reinterpret_cast<float*>(tables);
  for (size_t s = 0; s < 256; ++s)
    for (size_t i = 0; i < kNibbleValues; ++i) floats[s * kNibbleValues + i] = values[i] * scales[s];
  if (global != nullptr)
    for (size_t i = 0; i < kScaleTableEntries; ++i) floats[i] *= *global;
  for (size_t i = 0; i < kScaleTableEntries; ++i)
    floats[i] = floats[i] == floats[i] ? floats[i] : bit_cast<float>(0x7FC00000u);
  kernels.f32_to_bf16(tables, tables + 4 * kScaleTableEntries, kScaleTableEntries);
  kernels.f32_to_f16(tables, tables + 6 * kScaleTableEntries, kScaleTableEntries);
  for (const DType to : {DType::F32, DType::BF16, DType::F16}) {
    const std::byte* table = scale_table_of(tables, to);
    std::byte* masks = tables + masks_at(to);
    for (size_t s = 0; s < 256; ++s) {
      const uint32_t mask =
          to == DType::F32
              ? infinite_values(floats + s * kNibbleValues)
              : infinite_values(reinterpret_cast<const uint16_t*>(table) + s * kNibbleValues, to);
      store_le(masks + 2 * s, static_cast<uint16_t>(mask));
    }
  }
}

uint64_t decode_by_scale_tables(const KernelTable& kernels, DType to, const std::byte* tables,
                                const uint8_t* which, const NibbleGroups& groups, uint64_t stride,
                                std::byte* out) noexcept {
  const std::byte* table = scale_table_of(tables, to);
  const uint64_t pairs = groups.group_codes / 2;
  if (to == DType::F32) {
    const auto* values = reinterpret_cast<const float*>(table);
    for (uint64_t g = 0; g < groups.groups; ++g)
      look_up_floats(values + which[to_size(g)] * kNibbleValues, groups.high_first,
                     groups.codes + to_size(g * stride), pairs, out + to_size(g * pairs * 8));
  } else {
    kernels.look_up_nibbles({.tables = reinterpret_cast<const uint16_t*>(table),
                             .which = which,
                             .codes = groups.codes,
                             .groups = groups.groups,
                             .group_bytes = pairs,
                             .stride = stride,
                             .high_first = groups.high_first,
                             .out = out});
  }
  const auto* masks = reinterpret_cast<const uint16_t*>(tables + masks_at(to));
  uint64_t infinite = 0;
  for (uint64_t g = 0; g < groups.groups; ++g)
    if (const uint16_t mask = masks[which[to_size(g)]]; mask != 0)
      infinite += count_codes(groups, groups.codes + to_size(g * stride), mask);
  return infinite;
}

}  // namespace tftf
