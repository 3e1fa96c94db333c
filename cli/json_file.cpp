#include "json_file.h"

#include "tftf/base/escape.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {

Result<JsonValue> read_json_file(const std::string& path) {
  Result<std::string> text = read_small_file(path, kMaxJsonFile);
  if (!text) return std::move(text).error();
  JsonDocument document = parse_json(*text, JsonDialect::kStrict, kMaxJsonFileValues);
  if (document.error)
    return Error{.code = ErrorCode::kRefusedInput,
                 .message = quote_name(path) + " is not JSON: " + document.error->detail + " at byte " +
                            std::to_string(document.error->offset) + ".",
                 .file = path};
  return std::move(document.root);
}

}  // namespace tftf::cli
