// What arrives under the name of a safetensors file and is something else (spec safetensors 11).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "container/finding_list.h"

namespace tftf {

// Which check has just failed: archives and pickles are looked for only after a failed length check, since a
// sound file may begin with any bytes.
enum class FailedCheck { kLength, kText };

// Adds the one finding (ST005, ST006, ST007 or ST004, in that order) that explains the file, if any, and says
// whether there is one. `head` is the beginning of the file, at least 64 bytes of it or all; `length` its
// first eight bytes read as a header length.
bool add_foreign_content(std::string_view head, uint64_t size, uint64_t length, FailedCheck failed,
                         FindingList& findings);

// Rule ST003, on a head of at least 1,024 bytes or the whole file. Says whether it is a pointer.
bool add_lfs_pointer(std::string_view head, uint64_t size, FindingList& findings);

// What `bytes` begin like ("ZIP archive", "GGUF file"), empty when unknown.
std::string foreign_format(std::string_view bytes);

}  // namespace tftf
