#include "json_file.h"

#include <sys/stat.h>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/command/colibri_request.h"
#include "tftf_native/byte_source.h"

namespace tftf::cli {

Result<JsonValue> read_json_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && errno == ENOENT)
    return Error{
        .code = ErrorCode::kUsagePath, .message = "There is no " + quote_name(path) + ".", .file = path};
  Result<std::shared_ptr<ByteSource>> source = open_file_source(path);
  if (!source) return source.error();
  const auto refuse = [&](const std::string& why) {
    return Error{.code = ErrorCode::kRefusedInput, .message = quote_name(path) + why, .file = path};
  };
  if ((*source)->size() > colibri::kMaxBatchFile)
    return refuse(" has " + std::to_string((*source)->size()) + " bytes; up to " +
                  std::to_string(colibri::kMaxBatchFile) + " are read.");
  std::string text(to_size((*source)->size()), '\0');
  TFTF_TRY((*source)->read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return colibri::read_batch(text, path);
}

}  // namespace tftf::cli
