// Between the files of the AVX2 table.
#pragma once

#include "simd/tables.h"

#if defined(__x86_64__)
namespace tftf::simd::avx2 {
uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept;
void scan(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) noexcept;
void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept;
void product_f32(const PanelProduct<float>& task) noexcept;
void product_f64(const PanelProduct<double>& task) noexcept;
}  // namespace tftf::simd::avx2
#endif
