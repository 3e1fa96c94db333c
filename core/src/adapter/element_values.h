// Elements of factors one by one: what is scaled or multiplied while a recipe is carried out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/base/dtype.h"

namespace tftf {

// F64, F32, F16, BF16: what can be scaled.
bool can_scale(DType dtype);
// In place: each value times the scale, as recipe.h says. A dtype that can_scale().
void scale_values(DType dtype, std::byte* values, uint64_t count, double scale) noexcept;
// One value as F32; `at` counts elements.
float value_at(DType dtype, const std::byte* values, uint64_t at) noexcept;
// Rounds to the dtype.
void put_value(DType dtype, std::byte* values, uint64_t at, float value) noexcept;

}  // namespace tftf
