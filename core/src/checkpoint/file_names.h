// What the names of weight files and indexes say (spec safetensors 7, lint-rules 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tftf::names {

// Ends in ".safetensors", exactly so.
bool is_weight_file(std::string_view name);
// STEM.safetensors.index.json or STEM.safetensors.index.VARIANT.json.
bool is_index(std::string_view name);

// PREFIX-NNNNN-of-TTTTT[.VARIANT].safetensors, five digits each; VARIANT has no '.'. Views into the name.
struct NumberedShard {
  std::string_view prefix;
  std::string_view variant;  // empty without one
  uint32_t number = 0;
  uint32_t total = 0;
};
std::optional<NumberedShard> parse_numbered_shard(std::string_view name);

// Why a shard name of an index must not be opened, a phrase ("it is absolute"), or nothing: rule IX012.
std::optional<std::string_view> unsafe_reason(std::string_view shard);
// A safe name without "." and empty components: two spellings of one path become equal.
std::string clean_path(std::string_view shard);

}  // namespace tftf::names
