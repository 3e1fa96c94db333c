#pragma once

#include <string>

#include "tftf/base/json_text.h"

namespace tftf {

// {"layouts": [{"id", "title", "read", "written", "repacked_to"}]}
OrderedJson formats_json();
std::string formats_text();

}  // namespace tftf
