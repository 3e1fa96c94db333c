// Steps 3 to 9 of the container rules: one header text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "container/finding_list.h"

namespace tftf {

struct TextScan {
  bool readable = false;
  bool sound = false;              // no error in steps 5 to 8
  std::optional<size_t> trailing;  // which finding is ST041 and waits for its `sniff`
};

// Evaluates `text` (the N header bytes) of a file that begins with `head` and has `file_size` bytes; fills
// `header`. ST070 is left to the caller.
TextScan scan_header_text(std::string_view text, std::string_view head, uint64_t file_size, Header& header,
                          FindingList& findings);

}  // namespace tftf
