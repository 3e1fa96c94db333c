// A checkpoint: shards, index, configuration and side files, read header by header through a pump.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/base/json_value.h"
#include "tftf/container/header.h"

namespace tftf {

// A file beside or inside the model, as the host's listing reports it.
struct FileEntry {
  std::string name;  // relative to the model folder, '/' separators
  uint64_t size = 0;
  bool regular = true;     // false: folder, FIFO, device …
  std::string unreadable;  // why it cannot be read, empty when it can
};

// What the host was given and found: a single file, a folder, or an index file.
struct ModelListing {
  enum class Kind { kFile, kFolder, kIndex };
  Kind kind = Kind::kFolder;
  std::string given;  // as the user wrote it
  std::string main;   // kFile, kIndex: name of that file in `files`
  std::vector<FileEntry>
      files;  // the folder's own entries, or the file and its known companions; sorted by bytes
};

// A byte range of a named file that the pump wants next.
struct ReadRequest {
  std::string file;
  ByteRange range;
};

enum class ShardStatus { kOk, kMissing, kBroken, kPointer };
// "ok", "missing", "broken", "pointer".
std::string_view shard_status_name(ShardStatus status);

struct Shard {
  std::string name;  // relative to the folder
  ShardStatus status = ShardStatus::kOk;
  uint64_t size = 0;
  Header header;         // empty unless kOk
  Diagnostics findings;  // of the header scan
};

// `weight_map` and `metadata` of an index file, in file order. Duplicates are kept for the linter.
struct ShardIndex {
  std::string file;
  std::string text;    // the whole file
  JsonValue metadata;  // null when absent
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::optional<std::string> problem;  // why it cannot be used
};

// A side file's text and, when it is JSON, its document (Python's dialect).
struct SideFile {
  std::string name;
  std::string text;
  JsonDocument document;
};

// One tensor of a checkpoint: shard number and position in that shard's header.
struct TensorRef {
  uint32_t shard = 0;
  uint32_t tensor = 0;
};

// Immutable after the reader has built it.
struct Checkpoint {
  ModelListing listing;
  std::vector<Shard>
      shards;  // single file: one; sharded: in order of first appearance in the index, else by name
  std::optional<ShardIndex> index;
  std::vector<SideFile>
      side_files;  // config.json, adapter_config.json, quantize_config.json, … those that exist
  // Tensors in reading order (spec tftf 1.1): single file: by name's bytes; sharded: weight_map order
  // regrouped by shard.
  std::vector<TensorRef> order;
  std::unordered_map<std::string_view, TensorRef> by_name;  // views into `shards`

  const TensorInfo& info(TensorRef ref) const { return shards[ref.shard].header.tensors[ref.tensor]; }
  std::optional<TensorRef> find(std::string_view name) const;
  const SideFile* side_file(std::string_view name) const;
  // config.json's root object, or nothing.
  const JsonValue* config() const;
};

// How strictly the shards are taken.
// kTransform: the model that a command converts (spec cli 1, tftf 1.1): any broken shard, missing tensor,
// duplicate … is an error. kInspect: everything that is there, broken or not (`info`, `lint`).
enum class ReadMode { kTransform, kInspect };

struct ReaderOptions {
  ReadMode mode = ReadMode::kTransform;
  uint64_t max_header = kDefaultMaxHeader;
};

// The pump: ask want() for byte ranges until it gives nothing, then take(). Several requests may be
// outstanding in a host: it may fetch want_all() together; each answer goes to supply() with the request it
// answers.
class CheckpointReader {
 public:
  CheckpointReader(ModelListing listing, ReaderOptions options);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  // All ranges that can be fetched now; empty when done (or when an error has stopped it).
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  // The host could not read it: `reason` is an English phrase such as "permission denied".
  void fail(const ReadRequest& request, std::string reason);
  Result<Checkpoint> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
