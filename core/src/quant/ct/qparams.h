// Scales and zero points from the smallest and largest value of what they cover, in the arithmetic of the library's
// observers (spec compressed-tensors 2.12).
#pragma once

#include <cstdint>

#include "quant/ct/config.h"

namespace tftf::ct {

// BF16, F16 or F32: the value rounded to it.
float round_to(DType type, float x) noexcept;
// What an operation on the two is done in.
DType common_type(DType a, DType b) noexcept;

struct CodeRange {
  float lowest = 0, highest = 0;
  float width = 0;  // highest - lowest; of FP8 896, of FP4 12
};
CodeRange code_range(const Args& args);

// How scales are stored.
enum class ScaleForm : uint8_t {
  kPlain,      // in the dtype of the weight, or the one that was given
  kE4m3,       // under a global scale that divides (NVFP4)
  kExponents,  // of powers of two (MX)
};

struct ScaleRule {
  DType type = DType::BF16;  // of the weight
  ScaleForm form = ScaleForm::kPlain;
  CodeRange range{};
  bool symmetric = true;
  bool whole_zeros = true;            // zero points are integers, else E4M3
  int32_t exponent_offset = 2;        // MX: 2 for FP4, 8 for FP8
  std::optional<DType> rounded_to{};  // kPlain: scales are numbers of this dtype, too
};

struct ScaleAndZero {
  float scale = 0;  // not finite: the values are too far apart
  float zero = 0;
};

// `low` and `high` of finite values; 0 is always among them. `global`: of kE4m3.
ScaleAndZero scale_between(const ScaleRule& rule, float low, float high, float global) noexcept;
// NVFP4: 2688 / largest, the reciprocal first; 1 where that is not finite.
float global_scale(DType type, float largest) noexcept;
// MX, of a magnitude: 0 to 255.
uint32_t scale_exponent(DType type, int32_t offset, float largest) noexcept;
// The byte that stands for a positive power of two; nothing for any other value.
std::optional<uint8_t> exponent_of(float scale) noexcept;

}  // namespace tftf::ct
