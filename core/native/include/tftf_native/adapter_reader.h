// Finds and reads adapters: files, folders, training folders, distributed checkpoints (spec tftf 1.6).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tftf/adapter/adapter.h"

namespace tftf {

struct AdapterRequest {
  std::string path{};                   // as given
  std::optional<std::string> config{};  // a configuration instead of what is found
  bool dcp_only = false;   // merge-dcp-lora: a distributed checkpoint, or a training folder with some
  bool tokenizer = false;  // the files of its own tokenizer are read, too
  uint64_t max_header = kDefaultMaxHeader;
  std::vector<std::string>* sources = nullptr;  // gets the paths of all files and folders that are read
};

// Errors: kUsagePath for a path or configuration that does not exist and a training folder without an adapter;
// kRefusedMissing for a folder without one; whatever the readers and make_adapter() refuse.
Result<std::shared_ptr<const Adapter>> read_adapter(const AdapterRequest& request);

// Files of the ranks of a training run in their order, or (one path, a folder) all of its .safetensors files by the
// numbers in their names (spec tftf 2.8).
struct ShardedAdapterRequest {
  std::vector<std::string> files{};
  std::optional<std::string> folder{};
  std::optional<std::string> config{};
  uint32_t dim = 0;
  uint64_t max_header = kDefaultMaxHeader;
  std::vector<std::string>* sources = nullptr;  // as in AdapterRequest
};
Result<std::shared_ptr<const Adapter>> read_sharded_adapter(const ShardedAdapterRequest& request);

}  // namespace tftf
