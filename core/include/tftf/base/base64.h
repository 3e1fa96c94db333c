// Base64 with padding (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"

namespace tftf {

std::string encode_base64(Bytes bytes);
// Nothing for a character outside the alphabet (white space too), a length that is no multiple of 4, misplaced
// padding, or unused bits that are not zero: every text that is accepted is the one that encode_base64() gives.
std::optional<std::vector<std::byte>> decode_base64(std::string_view text);

}  // namespace tftf
