// The program's version and where its documentation is, set once by the build.
#pragma once

#include <string_view>

namespace tftf {

// "1.0.0": the project's version in CMakeLists.txt.
std::string_view version();

// Absolute URI of the documentation's folder without a final '/' (CMake: TFTF_DOCS_URL), or a URN when the build names
// no place.
std::string_view documentation_uri();

}  // namespace tftf
