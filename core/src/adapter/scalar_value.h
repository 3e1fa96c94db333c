// The value of a one-element tensor.
#pragma once

#include <optional>

#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"

namespace tftf {

// Exact for floats of up to 64 bits and integers up to 2^53; nothing for other dtypes or too few bytes.
std::optional<double> scalar_value(DType dtype, Bytes bytes);

}  // namespace tftf
