// SHA-256 of whole files and of parts of them, by the host's fast library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tftf/base/result.h"

namespace tftf {

// Hexadecimal, of bytes [offset, offset + bytes) of a file. kIoRead, kIoChanged when it is shorter.
Result<std::string> file_digest(const std::string& path, uint64_t offset, uint64_t bytes);
// Of whole files, several at a time, in their order.
Result<std::vector<std::string>> file_digests(const std::vector<std::string>& paths, uint32_t threads);

}  // namespace tftf
