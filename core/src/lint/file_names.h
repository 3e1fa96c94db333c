// What the names of weight files and indexes say (spec lint-rules 4, safetensors 7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tftf {

// STEM.safetensors.index.json, STEM.safetensors.index.VARIANT.json. Views into the name.
struct IndexName {
  std::string_view stem;
  std::string_view variant;  // empty without one
};
std::optional<IndexName> parse_index_name(std::string_view name);

// PREFIX-NNNNN-of-TTTTT[.VARIANT].safetensors, five digits each. Views into the name.
struct ShardName {
  std::string_view prefix;
  std::string_view variant;
  uint32_t number = 0;
  uint32_t total = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name);

// Whether `index` is an index of the family PREFIX with VARIANT: PREFIX.safetensors.index[.VARIANT].json; a
// prefix STEM.V without variant (older naming) also has STEM.safetensors.index.V.json.
bool is_family_index(const IndexName& index, std::string_view prefix, std::string_view variant);
// The first of these names, for messages.
std::string family_index_name(std::string_view prefix, std::string_view variant);
// The single file of the same weights: STEM.safetensors or STEM.VARIANT.safetensors.
std::string single_file_name(const IndexName& index);

// The variant that a component's weight file belongs to ("fp16"), empty for the default one; nothing when the
// name is not of a known stem (model, diffusion_pytorch_model, adapter_model). `extension` is cut off first.
std::optional<std::string_view> weight_variant(std::string_view name, std::string_view extension);

// Why a shard name of an index must not be opened, or nothing when it is a plain relative path.
std::optional<std::string_view> unsafe_reason(std::string_view shard);
// A safe shard name joined to its index's folder ("" or "SUB/"), without "." and empty components.
std::string shard_path(std::string_view folder, std::string_view shard);

bool ends_with(std::string_view text, std::string_view end);
bool starts_with(std::string_view text, std::string_view start);
// ASCII letters lowered.
std::string fold_case(std::string_view text);

}  // namespace tftf
