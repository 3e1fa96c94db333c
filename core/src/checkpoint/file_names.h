// What the names of weight files and indexes say (spec safetensors 7, lint-rules 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tftf/base/affix.h"

namespace tftf {

// Ends in ".safetensors", exactly so.
bool is_weight_name(std::string_view name);

// STEM.safetensors.index.json, STEM.safetensors.index.VARIANT.json. Views into the name.
struct IndexName {
  std::string_view stem;
  std::string_view variant;  // empty without one
};
std::optional<IndexName> parse_index_name(std::string_view name);

// PREFIX-NNNNN-of-TTTTT[.VARIANT].safetensors, five digits each; VARIANT has no '.'. Views into the name.
struct ShardName {
  std::string_view prefix;
  std::string_view variant;
  uint32_t number = 0;
  uint32_t total = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name);
// PREFIX-NNNNN-of-TTTTT alone.
std::optional<ShardName> parse_shard_numbers(std::string_view text);

// out-NNNNN.safetensors, out-PASS-NNNNN.safetensors: what colibri's tools write, numbered from 0 without a total. The prefix
// is "out" or "out-PASS".
struct ContainerName {
  std::string_view prefix;
  uint32_t number = 0;
};
std::optional<ContainerName> parse_container_name(std::string_view name);

// Why a shard name of an index must not be opened (rule IX012), one or two words such as "absolute", or nothing
// when it is a plain relative path.
std::optional<std::string_view> unsafe_reason(std::string_view shard);
// A safe shard name joined to its index's folder ("" or "SUB/"), without "." and empty components: two spellings
// of one path become equal.
std::string shard_path(std::string_view folder, std::string_view shard);

}  // namespace tftf
