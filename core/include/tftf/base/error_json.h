// An error as data (spec cli 5).
#pragma once

#include "tftf/base/json_text.h"
#include "tftf/base/result.h"

namespace tftf {

// {"error": {"code", "message", "file", "tensor", "expected", "found"}}; what does not apply is null.
OrderedJson error_json(const Error& error);

}  // namespace tftf
