// The colibri tools that turn a folder of shards into another.
#pragma once

#include <string>

#include "session.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {

// A folder whose shards all count, whatever an index says. kUsagePath for a file.
Result<NativeModel> open_shard_folder(const Session& session, const std::string& path);

}  // namespace tftf::cli
