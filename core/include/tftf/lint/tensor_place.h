#pragma once

#include <cstdint>

namespace tftf {

// A position in LintResult::files and in that file's header.
struct TensorPlace {
  uint32_t file = 0;
  uint32_t tensor = 0;
};

}  // namespace tftf
