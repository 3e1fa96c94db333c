// Other formats inside the file: ST070, and what trailing bytes begin with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "container/finding_list.h"
#include "tftf/container/header.h"

namespace tftf {

// The end of the file in which a ZIP archive's last record can lie.
ByteRange polyglot_tail(uint64_t file_size);

// ST070 for PDF and tar, which show in the first 1,024 bytes.
void check_polyglot_head(std::string_view head, FindingList& findings);
// ST070 for ZIP; `tail` is polyglot_tail() of the file.
void check_polyglot_tail(std::string_view tail, uint64_t file_size, FindingList& findings);

// " (they begin like a GGUF file)", or empty.
std::string trailing_sniff(std::string_view bytes);

}  // namespace tftf
