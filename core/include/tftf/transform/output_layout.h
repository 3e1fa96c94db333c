// What a result looks like on disk: shards, their headers' metadata, the index, the files beside them (spec
// tftf 1.5, cli 1).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf/container/header.h"

namespace tftf {

// Greedy packing: a tensor opens a new shard when the current one is not empty and would pass `max` bytes of
// tensors. Returns the index of each shard's first tensor; no tensors, no shards.
std::vector<size_t> pack_shards(const std::vector<uint64_t>& tensor_bytes, uint64_t max);

// How the files of a folder are called: after the input where its readers ask for that name (a part of a diffusers
// pipeline, an adapter), else "model".
struct OutputNames {
  std::string stem = "model";
  bool one_file = false;  // STEM.safetensors alone, without an index: an adapter
  std::string index() const { return stem + ".safetensors.index.json"; }
};
OutputNames output_names(const Checkpoint& checkpoint);
// "model-00001-of-00002.safetensors": counted from 1, at least five digits.
std::string shard_name(size_t index, size_t count, std::string_view stem = "model");

// `__metadata__` of every output file: the input's with every key (of several shards the first that has a key
// wins); "format" becomes "pt" when there is none and `add_format`; keys that name a hash of the data go when
// `data_changed`.
Metadata output_metadata(const Checkpoint& checkpoint, bool add_format, bool data_changed);

// Metadata that names a hash of the data: wrong once they have changed.
bool is_data_hash_key(std::string_view key);

// The text of the index as Python's json.dumps(indent=2) writes it: the old index's metadata with its unknown
// members in their order, total_size anew (last when it was absent), then the map in output order.
std::string index_text(const ShardIndex* old, uint64_t total_size,
                       const std::vector<std::pair<std::string_view, std::string_view>>& weight_map);

// The files that are copied beside the result, sorted by name: what lies directly in the model's folder but
// weights of any kind, indexes, our own temporary files, and files over 64 MiB; beside a lone file only those
// that are known to belong to models.
// `folder`: the entries of the model's folder.
std::vector<FileEntry> side_files_to_copy(ModelListing::Kind kind, std::span<const FileEntry> folder);
// What would be among them and is no regular file: a link to nothing, a FIFO, a device. Folders are never taken along.
std::vector<FileEntry> side_files_left_out(ModelListing::Kind kind, std::span<const FileEntry> folder);

}  // namespace tftf
