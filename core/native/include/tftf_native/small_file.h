// Small files that somebody names: configurations, lists, reports.
#pragma once

#include <cstdint>
#include <string>

#include "tftf/base/result.h"

namespace tftf {

// The whole of a regular file of up to `limit` bytes. kUsagePath when it is not there; kIoRead when it cannot be read or
// is a FIFO or a device, which is never waited for; kRefusedInput when it is longer.
Result<std::string> read_small_file(const std::string& path, uint64_t limit);

// Writes a small file under a temporary name, syncs, renames, syncs the folder.
Result<void> write_small_file(const std::string& folder, const std::string& name, const std::string& text);

}  // namespace tftf
