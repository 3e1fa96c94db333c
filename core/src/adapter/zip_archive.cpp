#include "tftf/adapter/zip_archive.h"

#include <algorithm>
#include <unordered_set>

#include "tftf/base/checked.h"
#include "tftf/base/crc32.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kMaxMembers = 1'000'000;

Error broken(std::string why) {
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.message = "the ZIP archive is damaged: " + std::move(why) + ".";
  return error;
}

template <class T>
T field(Bytes bytes, uint64_t at) {
  return load_le<T>(bytes.data() + at);
}

bool inside(Bytes bytes, uint64_t at, uint64_t length) {
  return at <= bytes.size() && length <= bytes.size() - at;
}

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

// The end record stands in the last 64 KiB, since a comment of up to 65535 bytes may follow it.
Result<Directory> find_directory(Bytes bytes) {
  if (bytes.size() < kEndBytes) return broken("it is too short");
  const uint64_t lowest = bytes.size() - std::min<uint64_t>(bytes.size(), kEndBytes + 65535);
  for (uint64_t at = bytes.size() - kEndBytes + 1; at-- > lowest;) {
    if (field<uint32_t>(bytes, at) != kEndSignature ||
        field<uint16_t>(bytes, at + 20) != bytes.size() - at - kEndBytes)
      continue;
    Directory directory{field<uint32_t>(bytes, at + 16), field<uint16_t>(bytes, at + 10)};
    if (directory.offset != 0xFFFFFFFF && directory.count != 0xFFFF) return directory;
    if (at < 20 || field<uint32_t>(bytes, at - 20) != kEnd64LocatorSignature)
      return broken("the 64-bit end record is not found");
    const auto end64 = field<uint64_t>(bytes, at - 12);
    if (!inside(bytes, end64, 56) || field<uint32_t>(bytes, end64) != kEnd64Signature)
      return broken("the 64-bit end record is not found");
    return Directory{field<uint64_t>(bytes, end64 + 48), field<uint64_t>(bytes, end64 + 32)};
  }
  return broken("the end record is not found (a cut file?)");
}

// The 64-bit values of an entry's extra field 1, in the order size, compressed size, offset, only those that
// are all ones.
bool read_zip64(Bytes extra, uint64_t& size, uint64_t& packed, uint64_t& offset) {
  for (uint64_t at = 0; inside(extra, at, 4);) {
    const auto id = field<uint16_t>(extra, at);
    const auto length = field<uint16_t>(extra, at + 2);
    if (!inside(extra, at + 4, length)) return false;
    if (id == 1) {
      uint64_t next = at + 4;
      for (uint64_t* value : {&size, &packed, &offset}) {
        if (*value != 0xFFFFFFFF) continue;
        if (next + 8 > at + 4 + length) return false;
        *value = field<uint64_t>(extra, next);
        next += 8;
      }
    }
    at += 4u + length;
  }
  return true;
}

Result<ZipMember> read_entry(Bytes bytes, uint64_t at, uint64_t& next) {
  if (!inside(bytes, at, kEntryBytes) || field<uint32_t>(bytes, at) != kEntrySignature)
    return broken("a directory entry is not where it should be");
  const auto flags = field<uint16_t>(bytes, at + 8);
  const auto method = field<uint16_t>(bytes, at + 10);
  const uint64_t name_length = field<uint16_t>(bytes, at + 28);
  const uint64_t extra_length = field<uint16_t>(bytes, at + 30);
  const uint64_t comment_length = field<uint16_t>(bytes, at + 32);
  const uint64_t variable = name_length + extra_length + comment_length;
  if (!inside(bytes, at + kEntryBytes, variable)) return broken("a directory entry is cut");
  next = at + kEntryBytes + variable;
  ZipMember member;
  member.name = as_text(bytes.subspan(to_size(at + kEntryBytes), to_size(name_length)));
  member.crc = field<uint32_t>(bytes, at + 16);
  uint64_t packed = field<uint32_t>(bytes, at + 20);
  member.size = field<uint32_t>(bytes, at + 24);
  uint64_t local = field<uint32_t>(bytes, at + 42);
  if (!read_zip64(bytes.subspan(to_size(at + kEntryBytes + name_length), to_size(extra_length)), member.size,
                  packed, local))
    return broken("a 64-bit field is cut");
  const std::string shown = quote_name(member.name);
  if ((flags & 1) != 0) return broken("the member " + shown + " is encrypted");
  if (method != 0 || packed != member.size)
    return broken("the member " + shown + " is compressed; torch stores members as they are");
  if (!inside(bytes, local, kLocalBytes) || field<uint32_t>(bytes, local) != kLocalSignature)
    return broken("the local header of " + shown + " is not found");
  member.offset =
      local + kLocalBytes + field<uint16_t>(bytes, local + 26) + field<uint16_t>(bytes, local + 28);
  if (!inside(bytes, member.offset, member.size)) return broken("the member " + shown + " runs past the end");
  return member;
}

}  // namespace

Result<std::vector<ZipMember>> read_zip(Bytes bytes) {
  auto directory = find_directory(bytes);
  if (!directory) return directory.error();
  if (directory->count > kMaxMembers)
    return broken("it claims " + std::to_string(directory->count) + " members");
  std::vector<ZipMember> members;
  std::unordered_set<std::string> names;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->count; ++i) {
    auto member = read_entry(bytes, at, at);
    if (!member) return member.error();
    if (!names.insert(member->name).second)
      return broken("two members are called " + quote_name(member->name));
    members.push_back(std::move(*member));
  }
  return members;
}

Result<Bytes> zip_data(Bytes bytes, const ZipMember& member) {
  const Bytes data = bytes.subspan(to_size(member.offset), to_size(member.size));
  if (crc32(data) != member.crc) return broken("the checksum of " + quote_name(member.name) + " is wrong");
  return data;
}

}  // namespace tftf
