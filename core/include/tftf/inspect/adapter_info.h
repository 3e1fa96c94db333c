// What `adapter info` tells: an adapter by itself, or each one of a folder.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/inspect/info.h"

namespace tftf {

// The document of one path (spec adapters 13). What is no adapter has its kind and evidence alone.
OrderedJson adapter_info_json(const ModelInfo& info);
// The same for people, as lines.
std::string adapter_info_text(const ModelInfo& info);
// Why it is no adapter, one sentence; nothing when it is one.
std::optional<Error> no_adapter(const ModelInfo& info);

// What of a folder is told one by one: files that end in .safetensors, when there are several that no index and no shard
// name joins; without any the folders of a pipeline's models. Empty: the folder is one adapter, or whatever it is.
std::vector<std::string> separate_adapters(std::span<const FileEntry> folder);

}  // namespace tftf
