// FP8 with scales without vector arithmetic: for every scale the 256 finished values, one load and one store
// per element.
#pragma once

#include "simd/tables.h"

namespace tftf::simd::code_table {

// As KernelTable::dequantize_f8. Worth it where a scale serves several hundred elements; shorter stretches go
// to the scalar kernel.
uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept;

}  // namespace tftf::simd::code_table
