// Names that occur twice, or differ only in letter case.
#pragma once

#include <cstdint>

#include "container/finding_list.h"
#include "container/text_list.h"

namespace tftf {

// ST022 once per repeated name; ST067 once per later name (by bytes) among those equal but for ASCII case.
// `text_offset` is the place of the names' text in the file.
void check_repeated_names(const TextList& names, uint64_t text_offset, FindingList& findings);

}  // namespace tftf
