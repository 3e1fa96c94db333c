// An index file read once, event by event: a document of a 60 MB index would need several times its size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/name_table.h"
#include "tftf/base/json_reader.h"

namespace tftf {

// One key of weight_map, the last of equal ones.
struct MappedTensor {
  uint32_t name = 0;    // in IndexDocument::tensors
  uint32_t shard = 0;   // in IndexDocument::shards; kNotText: the value is no string
  uint64_t offset = 0;  // of the key
  JsonKind kind = JsonKind::kString;
};
inline constexpr uint32_t kNotText = UINT32_MAX;

// A number of `metadata`, or whatever stands in its place.
struct DeclaredNumber {
  bool present = false;
  JsonKind kind = JsonKind::kNull;
  std::string text;     // a number's literal or a string; empty for other kinds
  uint64_t offset = 0;  // of the key

  // A literal of digits alone, however long.
  bool is_plain_integer() const {
    return kind == JsonKind::kNumber && text.find_first_not_of("0123456789") == std::string::npos;
  }
};

struct RepeatedKey {
  std::string key;
  bool top_level = false;  // else in weight_map
  uint64_t count = 0;
  uint64_t offset = 0;  // of its last occurrence
};

class IndexDocument {
 public:
  // Reads `text`, which need not outlive the call.
  explicit IndexDocument(std::string_view text);
  IndexDocument(const IndexDocument&) = delete;
  IndexDocument& operator=(const IndexDocument&) = delete;

  std::optional<std::string> problem;  // not a JSON object: why; nothing else is filled in then
  uint64_t problem_offset = 0;
  std::optional<JsonKind> weight_map_kind;  // nothing: no such key
  uint64_t weight_map_offset = 0;
  std::optional<JsonKind> metadata_kind;
  DeclaredNumber total_size;
  DeclaredNumber total_parameters;
  std::vector<RepeatedKey> repeated;  // by offset
  std::vector<MappedTensor> map;      // one per name, in the order of their first occurrence
  NameTable tensors;
  NameTable shards;  // in order of first appearance

  // weight_map can be followed.
  bool usable() const { return !problem && weight_map_kind == JsonKind::kObject; }

 private:
  class Handler;
  std::vector<std::string> arena_;  // the names' text, in blocks that never move
  std::string_view keep(std::string_view text);
};

}  // namespace tftf
