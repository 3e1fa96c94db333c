// One element at a time: the value of every float code of the format, and the nearest code of a value.
// These functions are the specification of the conversions (docs/numerics.md); the kernels repeat them over
// runs.
//
// Rounding is to nearest, ties to even, always. Denormals are ordinary values in and out. -0 stays -0 where
// the target has it. NaN:
//  - between F64, F32, F16 and BF16: the sign and the leading payload bits that fit are kept, the quiet bit
//  is set
//    (BF16 to F32 only appends zero bits, a signalling NaN stays one);
//  - every NaN code of an F8 type becomes the canonical NaN (positive, quiet, payload zero: F32 7FC00000).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/base/dtype.h"

namespace tftf {

// F16, BF16. Exact.
float f32_from_f16(uint16_t code) noexcept;
float f32_from_bf16(uint16_t code) noexcept;
// |x| >= 65520 becomes infinite, below 2^-14 subnormal with step 2^-24.
uint16_t f16_from_f32(float x) noexcept;
// |x| >= 2^128 - 2^119 (bits 7F7F8000) becomes infinite; subnormals with step 2^-133.
uint16_t bf16_from_f32(float x) noexcept;
// F64 to F16, BF16 and the F8 types goes through F32 (two roundings, as torch does).
float f32_from_f64(double x) noexcept;
double f64_from_f32(float x) noexcept;

// Values of the 256 codes of F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ or F8_E8M0, all exact in F32:
//   E4M3      bias 7, largest 448, 7F and FF are NaN, no infinity
//   E5M2      bias 15, largest 57344, 7C and FC infinite, above NaN
//   E4M3FNUZ  bias 8, largest 240, 80 is NaN, no infinity, no -0
//   E5M2FNUZ  bias 16, largest 57344, 80 is NaN, no infinity, no -0
//   E8M0      2^(code - 127), FF is NaN, no sign, no zero (code 0 is 2^-127)
const float* f8_values(DType dtype) noexcept;
// Values of the 64 codes of F6_E2M3 (bias 1, largest 7.5) or F6_E3M2 (bias 3, largest 28); no NaN, no
// infinity.
const float* f6_values(DType dtype) noexcept;
// Values of the 16 codes of F4 (E2M1): +-{0, 0.5, 1, 1.5, 2, 3, 4, 6}.
const float* f4_values() noexcept;

// What becomes of a magnitude that rounds past the largest finite value of an F8 type.
enum class Overflow : uint8_t {
  kSpecial,   // the type's infinity, else its NaN, with the sign of x where there is one (torch's `.to`);
              // an infinite x likewise. E4M3: |x| > 464 is NaN. E5M2: |x| >= 61440 is infinite.
              // E4M3FNUZ: |x| >= 248 is NaN. E5M2FNUZ: |x| >= 61440 is NaN.
  kSaturate,  // the largest finite value with the sign of x, also for an infinite x (what quantisers do by
              // clamping).
};
// dtype: F8_E4M3, F8_E5M2 or their FNUZ forms. NaN gives NaN (7F or FF by sign for E4M3 and E5M2, 80 for
// FNUZ). FNUZ: what rounds to zero is +0 whatever the sign.
uint8_t f8_from_f32(DType dtype, float x, Overflow overflow) noexcept;
// The nearest power of two; a tie (x = 1.5 * 2^n) goes to the larger. Zero (either sign) and all below 1.5 *
// 2^-127 give code 0 (2^-127). From 1.5 * 2^127 on, infinite, NaN and negative values give FF: there is no
// code for them.
uint8_t e8m0_from_f32(float x) noexcept;
// F6_E2M3 or F6_E3M2; saturating. NaN has no code and gives -0 (20): callers that care check first.
uint8_t f6_from_f32(DType dtype, float x) noexcept;
// F4; saturating. NaN has no code and gives -0 (8): callers that care check first.
uint8_t f4_from_f32(float x) noexcept;

// Element `index` of a run of any dtype but C64 (sub-byte ones from the low bits up), as the nearest F64.
// Exact but for I64 and U64 beyond 2^53.
double element_as_f64(DType dtype, const std::byte* data, uint64_t index) noexcept;
// The same element's bits, right-aligned; C64: real part in the low half.
uint64_t element_bits(DType dtype, const std::byte* data, uint64_t index) noexcept;

}  // namespace tftf
