// Reading for the linter: failures are English phrases for rule ST009, not errors.
#pragma once

#include <optional>
#include <string>

#include "posix.h"
#include "tftf/base/bytes.h"

namespace tftf {

inline constexpr const char* kNotRegular = "not a regular file";

// The system's words for an error number, as a phrase: "permission denied".
std::string error_phrase(int error);

// A regular file, opened when first read. Not for several threads.
class LintFile {
 public:
  // What went wrong, or nothing. `path` may change from call to call: the last one stays open.
  std::optional<std::string> read(const std::string& path, uint64_t offset, MutableBytes into);

 private:
  std::string path_;
  Descriptor fd_;
};

}  // namespace tftf
