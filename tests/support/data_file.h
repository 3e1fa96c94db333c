// Reading files of the tests.
#pragma once

#include <string>

namespace tftf_test {

// The bytes of a file below tests/, as "/data/regex.json".
std::string read_data(const std::string& path);

}  // namespace tftf_test
