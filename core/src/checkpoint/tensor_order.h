// Reading order and look-up of a checkpoint's tensors, from the index and the headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// weight_map with its shards resolved. Views into the ShardIndex it was made of, which outlives it.
struct MappedNames {
  struct Place {
    uint32_t position = 0;  // in weight_map: of the first occurrence
    uint32_t shard = 0;     // in `shards`; kUnsafe: the name must not be opened
  };
  static constexpr uint32_t kUnsafe = UINT32_MAX;
  std::vector<std::string> shards;  // cleaned names, in order of first appearance
  std::unordered_map<std::string_view, Place> tensors;
  std::vector<std::string_view> twice;  // keys that occur twice, at most a few
  std::vector<std::string> unsafe;      // shard names as written, at most a few
};
MappedNames resolve_map(const ShardIndex& index);

// A mapped tensor that its shard, which was read, does not hold.
struct Unfound {
  std::string_view tensor;
  uint32_t shard = 0;
};

// Fills order, unlisted and by_name of a checkpoint whose shards are those of `mapped` (null: no index),
// perhaps with others behind. `everything`: kInspect. Gives the first mapped tensor that a readable shard
// lacks.
std::optional<Unfound> order_tensors(Checkpoint& checkpoint, const MappedNames* mapped, bool everything);

}  // namespace tftf
