// Removes what was read, when its result is safe.
#pragma once

#include <string>
#include <vector>

#include "tftf_native/executor.h"

namespace tftf {

// Removes the files, each only if it still is the one that was read (RunInput::seen); then the folder's entries are
// synced. kIoChanged for one that is another now, kIoWrite for one that cannot be removed; those before it are gone.
Result<void> remove_sources(const std::vector<RunInput>& inputs, const std::string& folder);

}  // namespace tftf
