// JSON documents that are arguments: a table of questions, a recipe.
#pragma once

#include <string>

#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf::cli {

// The document of a regular file, RFC 8259. Errors: kUsagePath when nothing is there, kIoRead, kRefusedInput when it
// is larger than colibri::kMaxBatchFile or not JSON.
Result<JsonValue> read_json_file(const std::string& path);

}  // namespace tftf::cli
