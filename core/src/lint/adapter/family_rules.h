// Rules of adapters that hold for every family of names: LO021 to LO029, and LO005, LO006, LO016 where the names are neither
// PEFT's nor kohya's pairs.
#pragma once

#include "container/finding_list.h"
#include "tftf/container/header.h"

namespace tftf {

// `configured`: adapter_config.json lies beside the file. False for a header that is no adapter's.
bool check_adapter_family(FindingList& list, const Header& header, bool configured);

}  // namespace tftf
