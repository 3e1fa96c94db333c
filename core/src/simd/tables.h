// The tables behind available_kernels(), and the scalar kernels that other tables fall back on.
#pragma once

#include "tftf/simd/kernels.h"

namespace tftf::simd {

extern const KernelTable kScalar;
#if defined(__x86_64__)
extern const KernelTable kAvx2;    // needs AVX2 and F16C
extern const KernelTable kAvx512;  // those, and AVX-512 F, BW, DQ and VL
#endif
#if defined(__aarch64__)
extern const KernelTable kNeon;
#endif
#if defined(__wasm_simd128__)
extern const KernelTable kWasm128;
#endif

namespace scalar {
void bf16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept;
uint64_t f32_to_bf16(const std::byte* in, std::byte* out, uint64_t count) noexcept;
void f16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept;
uint64_t f32_to_f16(const std::byte* in, std::byte* out, uint64_t count) noexcept;
uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept;
void scan(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) noexcept;
void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept;
void product_f32(const PanelProduct<float>& task) noexcept;
void product_f64(const PanelProduct<double>& task) noexcept;
uint64_t merge_f32(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                   uint64_t count) noexcept;
uint64_t merge_f64(const std::byte* w, double s, const double* delta, std::byte* out,
                   uint64_t count) noexcept;
double sum_squares_f32(const float* x, uint64_t count) noexcept;
uint32_t largest_magnitude(const float* x, uint64_t count) noexcept;
void quantize_i8(const float* x, uint64_t count, float scale, int32_t lowest, int32_t highest,
                 int8_t* codes) noexcept;
void pack_nibbles(const int8_t* codes, uint64_t count, std::byte* out) noexcept;
void quantize_e4m3(const float* x, uint64_t count, float scale, std::byte* codes) noexcept;
void quotients(const QuotientRun& run, const float* x, uint64_t count, float* out) noexcept;
void quantize_e2m1(const float* x, uint64_t count, std::byte* out) noexcept;
uint32_t search_e8(const float* magnitudes, float d, uint8_t* indices) noexcept;
void look_up_nibbles(const NibbleLookup& task) noexcept;
void transpose_16(const Transposition& task) noexcept;
}  // namespace scalar

}  // namespace tftf::simd
