// Side files as text: why one is no JSON object, and where an offset lies in it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tftf/base/json_reader.h"
#include "tftf/base/json_value.h"
#include "tftf/diagnostic/diagnostic.h"

namespace tftf {

struct SideFault {
  std::string detail;  // a phrase; names what the file is instead where that shows (LFS pointer, HTML)
  uint64_t offset = 0;
};

// Events of a side file (Python's dialect), checked as parse_json() does.
std::optional<SideFault> read_side_json(std::string_view text, JsonHandler& handler);
// The same judgement about a parsed document, and whether it is an object.
std::optional<SideFault> object_fault(std::string_view text, const JsonDocument& document);

// JSON Pointer of a path of keys.
inline std::string pointer_of(std::initializer_list<std::string_view> keys) {
  return json_pointer({keys.begin(), keys.size()});
}

// Sets line and column of the findings of `file` that have an offset and no line yet.
void set_positions(Diagnostics& findings, std::string_view file, std::string_view text);

}  // namespace tftf
