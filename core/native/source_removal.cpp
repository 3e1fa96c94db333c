#include "tftf_native/source_removal.h"

#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {

Result<void> remove_sources(const std::vector<RunInput>& inputs, const std::string& folder) {
  for (const RunInput& input : inputs) {
    auto now = file_fingerprint(input.path);
    if (!now.ok()) return std::move(now).error();
    if (!input.seen || !(*input.seen == *now)) {
      return Error{.code = ErrorCode::kIoChanged,
                   .message = "Source " + quote_name(input.path) +
                              " is not the file that was read any more and is left alone.",
                   .file = input.path};
    }
    if (retry([&] { return ::unlink(input.path.c_str()); }) != 0)
      return system_error(ErrorCode::kIoWrite, "remove", input.path, errno);
  }
  auto opened = open_output_folder(folder);
  if (!opened.ok()) return std::move(opened).error();
  return (*opened)->sync();
}

}  // namespace tftf
