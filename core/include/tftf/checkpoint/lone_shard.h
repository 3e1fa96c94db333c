// One shard of a model, given alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// A file that may be an index beside a lone file: its name ends in .safetensors.index.json.
bool may_index(const FileEntry& file);

// A sentence when the listing is of a lone file and the index beside it names that file as a shard; nothing
// otherwise, also when the index cannot be read as one.
std::optional<std::string> lone_shard_warning(const ModelListing& listing, std::string_view index_name,
                                              std::string_view index_text);

}  // namespace tftf
