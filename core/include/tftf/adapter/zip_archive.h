// Reading of the ZIP archives that torch.save writes: members stored, not compressed; the central directory
// is the truth, local headers may hold no sizes (spec tftf 3.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/result.h"

namespace tftf {

struct ZipMember {
  std::string name;     // as stored; never used as a path
  uint64_t offset = 0;  // of its data, in the archive's bytes
  uint64_t size = 0;
  uint32_t crc = 0;
};

// Members of the archive that fills `bytes`. Refused (kRefusedInput): no or a damaged directory, compressed
// or encrypted members, data outside the archive, two members of one name, more than 1,000,000 members.
Result<std::vector<ZipMember>> read_zip(Bytes bytes);

// The data of a member, its CRC checked.
Result<Bytes> zip_data(Bytes bytes, const ZipMember& member);

}  // namespace tftf
