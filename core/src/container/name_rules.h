// Rules about one tensor name: ST060 to ST065 and ST068.
#pragma once

#include <cstdint>
#include <string_view>

#include "container/finding_list.h"

namespace tftf {

// `offset` is the file offset of the name's key.
void check_name(std::string_view name, uint64_t offset, FindingList& findings);

// The JSON Pointer of an entry, or of a field in it; empty for names too long to repeat.
std::string entry_pointer(std::string_view name, std::string_view field = {});

}  // namespace tftf
