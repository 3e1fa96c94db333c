// A document that was read, for a document that is written.
#pragma once

#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"

namespace tftf {

// Numbers beyond 64 bits become their literal text; of equal keys the last value counts, where the key stands first.
OrderedJson to_ordered_json(const JsonValue& value);

}  // namespace tftf
