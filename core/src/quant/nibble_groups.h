// Groups of codes of four bits whose sixteen values are known: what decoders of four bits come down to, fast.
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

inline constexpr uint64_t kNibbleValues = 16;

struct NibbleGroups {
  const std::byte* codes = nullptr;
  uint64_t groups = 0;
  uint64_t group_codes = 0;  // even
  bool high_first = false;   // of the two codes in a byte
  uint32_t finite = 0xFFFF;  // a bit for each code whose own value is finite
};

// So many groups at most are decoded in one call.
inline constexpr uint64_t kNibbleGroupsAtOnce = 32;

// `values`: F32, sixteen for each group; NaN among them is made canonical. Elements as F32, BF16 or F16 with one rounding.
// Returns how many with a finite code are infinite.
uint64_t decode_nibble_groups(const KernelTable& kernels, DType to, const NibbleGroups& groups, float* values,
                              std::byte* out) noexcept;

// The same for codes whose values depend on a byte of scale alone: all of them, as F32, BF16 and F16 behind each other, then
// for each of the three which codes are infinite under each scale.
inline constexpr uint64_t kScaleTableEntries = 256 * kNibbleValues;
inline constexpr uint64_t kScaleTableBytes = kScaleTableEntries * (4 + 2 + 2) + 3 * 256 * 2;
// `values` of the codes, `scales` of the 256 bytes; (value * scale) * global where there is one.
void make_scale_tables(const KernelTable& kernels, const float* values, const float* scales,
                       const float* global, std::byte* tables) noexcept;
// `which` of the 256 tables each group has; its codes begin `stride` bytes behind those of the group before. All values of
// the codes must be finite.
uint64_t decode_by_scale_tables(const KernelTable& kernels, DType to, const std::byte* tables,
                                const uint8_t* which, const NibbleGroups& groups, uint64_t stride,
                                std::byte* out) noexcept;

}  // namespace tftf
