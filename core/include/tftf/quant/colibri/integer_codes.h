// colibri's integer formats fmt1 to fmt5, one row at a time (spec colibri 1.1 to 1.6).
//
// Numeric contract, all in binary32 without fused multiply-add: amax = max |w| over the scope (row or group);
// s = max(amax / qmax, 1e-8f); code = clamp(round_half_even(w / s), lo, qmax); decoded value = code * s (one
// multiplication). -0.0 gives code 0; denormals are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tftf/quant/colibri/format.h"
#include "tftf/simd/kernels.h"

namespace tftf::colibri {

// What a writer chooses: the container, the code width (bits 2..8 for kInt8Row, 2..4 for the int4 containers;
// fixed for the others) and the group size of kInt4Grouped.
struct IntegerSpec {
  Format format = Format::kInt4Grouped;
  uint32_t bits = 4;
  uint64_t group_size = 64;
};

// Bytes of one encoded row of `columns` values; scales of one row.
uint64_t row_bytes(const IntegerSpec& spec, uint64_t columns);
uint64_t row_scales(const IntegerSpec& spec, uint64_t columns);

// Encodes one row. `codes` has row_bytes(), `scales` row_scales() elements. Unused bits: zero nibbles and
// crumbs, code 4 in the padding of int3 groups (as the reference writer leaves them).
// Returns how many values are not finite: no code stands for them, and what their scopes hold then is no matter.
uint64_t encode_row(const KernelTable& kernels, const IntegerSpec& spec, std::span<const float> row,
                    std::span<std::byte> codes, std::span<float> scales) noexcept;

// Decodes one row of `row.size()` values.
void decode_row(const IntegerSpec& spec, std::span<const std::byte> codes, std::span<const float> scales,
                std::span<float> row) noexcept;

}  // namespace tftf::colibri
