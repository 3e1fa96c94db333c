// The stamps of a container: `colibri.fmt` in a shard's metadata claims a format per weight name (spec
// colibri 3.1).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/container/header.h"

namespace tftf::colibri {

inline constexpr std::string_view kStampKey = "colibri.fmt";
inline constexpr std::string_view kDeclarationKey = "colibri.container.formats";
inline constexpr std::string_view kRansTableKey = "colibri.int4-rans256-g0.table";
inline constexpr uint64_t kStampCap = 4096;  // distinct names over all shards

enum class StampFault : uint8_t {
  kNotString,
  kNotObject,
  kEntryNotString,
  kConflict,
  kCap,
  kDuplicateTensor
};
// "stamp-not-string", "stamp-not-object", "stamp-entry-not-string", "stamp-conflict", "stamp-cap",
// "duplicate-tensor".
std::string_view stamp_fault_class(StampFault fault);

struct StampRefusal {
  StampFault fault;
  std::string file;
  std::string tensor;  // where there is one
  std::string detail;  // one English sentence
};

// Ingests shards in path order. The first refusal stops the load, as it stops the reader's.
class StampMap {
 public:
  // `cap`: of distinct names; kRansStamp containers are verified without one.
  explicit StampMap(uint64_t cap = kStampCap) : cap_(cap) {}
  // `text`: the value of colibri.fmt in that shard, nothing when absent. `not_string`: the value is there and
  // no string.
  std::optional<StampRefusal> ingest(std::string_view file, const std::string* text, bool not_string);
  // The same from the header.
  std::optional<StampRefusal> ingest(std::string_view file, const Header& header);
  // Tensor names of a shard: a name seen in another shard is refused.
  std::optional<StampRefusal> add_tensors(std::string_view file, const Header& header);
  // The format claimed for a weight, nothing when unstamped.
  std::optional<std::string> find(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const { return stamps_; }

 private:
  uint64_t cap_;
  std::map<std::string, std::string, std::less<>> stamps_;
  std::map<std::string, std::string, std::less<>> holder_;  // tensor → file
};

// The text written under kStampKey: keys sorted, ", " and ": " separators, non-ASCII escaped (Python's
// json.dumps with sort_keys).
std::string stamp_text(const std::map<std::string, std::string, std::less<>>& stamps);
// The text written under kDeclarationKey: a sorted array of format names.
std::string declaration_text(std::vector<std::string> formats);

}  // namespace tftf::colibri
