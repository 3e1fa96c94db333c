#include "json_file.h"

#include "tftf/command/colibri_request.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {

Result<JsonValue> read_json_file(const std::string& path) {
  Result<std::string> text = read_small_file(path, colibri::kMaxBatchFile);
  if (!text) return std::move(text).error();
  return colibri::read_batch(*text, path);
}

}  // namespace tftf::cli
