// Layouts that are read and have no reference bytes of their producer's own code among the golden cases, each with the
// reason and what stands in for them.
#pragma once

#include <string_view>

namespace tftf {

struct LayoutWithoutReference {
  std::string_view layout;
  std::string_view reason;
};

inline constexpr LayoutWithoutReference kLayoutsWithoutReference[] = {
    {"colibri-int4-rans256-g0", "its records must decode to the bytes of int4-row, which have references"},
};

}  // namespace tftf
