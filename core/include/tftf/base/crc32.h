// CRC-32 as in ZIP, gzip and PNG (polynomial 0xEDB88320, reflected).
#pragma once

#include <cstdint>
#include <string>

#include "tftf/base/bytes.h"

namespace tftf {

// CRC of the bytes; `crc` continues an earlier result (0 starts).
uint32_t crc32(Bytes bytes, uint32_t crc = 0);
// crc32(bytes) as eight lower-case hexadecimal digits.
std::string crc32_hex(Bytes bytes);

}  // namespace tftf
