// What a header scan says about entries that it could not use.
#pragma once

#include <string_view>
#include <vector>

#include "tftf/container/header.h"

namespace tftf {

// Names of entries that stand in the header and are not among its usable tensors. By bytes, unique.
std::vector<std::string_view> unusable_entries(const HeaderScan& scan);
// Whether these, with the usable ones, are all names of the header: the scan keeps a bounded number of
// findings.
bool all_entries_known(const HeaderScan& scan);
// Readable, and every entry can be used.
bool all_entries_usable(const HeaderScan& scan);

}  // namespace tftf
