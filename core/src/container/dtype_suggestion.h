// What the writer of an unknown dtype name probably meant.
#pragma once

#include <string>
#include <string_view>

namespace tftf {

// " (did you mean F8_E4M3?)", or empty when nothing is near: torch's and NumPy's names, other spellings and
// letter case.
std::string dtype_suggestion(std::string_view name);

}  // namespace tftf
