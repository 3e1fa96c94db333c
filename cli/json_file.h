// JSON documents that are arguments: a table of questions, a recipe.
#pragma once

#include <cstdint>
#include <string>

#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf::cli {

inline constexpr uint64_t kMaxJsonFile = uint64_t{256} << 20;
inline constexpr uint64_t kMaxJsonFileValues = 10'000'000;

// The document of a regular file, RFC 8259. Errors: kUsagePath when nothing is there, kIoRead, kRefusedInput when it
// is larger than kMaxJsonFile or not JSON.
Result<JsonValue> read_json_file(const std::string& path);

}  // namespace tftf::cli
