// Order of names in which runs of digits count as numbers: rank_2 before rank_10 (spec tftf 2.8).
#pragma once

#include <string_view>

namespace tftf {

// Strict weak order: digit runs by value (any length), everything else by bytes; names that differ only in
// leading zeros by bytes.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace tftf
