// A checkpoint: shards, index, configuration and side files, read header by header through a pump.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  bool regular = true;     // false: folder, FIFO, device …: never opened
  std::string unreadable;  // why it cannot be read, empty when it can
  bool folder = false;     // not regular because it is a folder
};

// What the host was given and found: a single file, a folder, or an index file.
struct ModelListing {
  enum class Kind { kFile, kFolder, kIndex };
  Kind kind = Kind::kFolder;
  std::string given;  // as the user wrote it
  std::string main;   // kFile, kIndex: name of that file in `files`
  // kFolder: the folder's own entries. kFile, kIndex: that file; others may follow. Any order. What the
  // reader needs beside them it asks for (want_files).
  std::vector<FileEntry> files;
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
  bool readable = false;  // the header's text is an object; a kBroken shard can be readable
  Header header;          // what could be used of it; empty unless readable
  Diagnostics findings;   // of the header scan
  std::vector<std::pair<Rule, uint64_t>> omitted;  // findings counted and not kept
  // The model's own file by the folder rules (spec cli 1), or named by its index. Others are there in
  // kInspect only: whatever else the folder holds, behind the listed ones and sorted by name.
  bool listed = true;
};

// `weight_map` and `metadata` of an index file, in file order, read as Python's json module reads them but
// for the duplicates, which are kept.
struct ShardIndex {
  std::string file;
  std::string text;             // the whole file
  JsonValue metadata;           // null when absent; its positions count from metadata_begin
  uint64_t metadata_begin = 0;  // in the text
  // Tensor, shard as written; in kTransform gone once Checkpoint::order says it.
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::optional<std::string> problem;  // why it cannot be used at all, a phrase: "it is not valid JSON …"
  std::optional<std::string> defect;   // why kTransform refuses it although it can be followed
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
  // Single file: one; sharded: in order of first appearance in the index, else by name.
  std::vector<Shard> shards;
  std::optional<ShardIndex> index;
  // Those of side_file_names() that exist, in that order.
  std::vector<SideFile> side_files;
  // Tensors in reading order (spec tftf 1.1): single file: by name's bytes; sharded: weight_map order
  // regrouped by shard; without index: shard by shard, by name. In kInspect tensors that the index does not
  // list, and those of unlisted shards, follow; in kTransform they are left out.
  std::vector<TensorRef> order;
  // In listed shards, tensors that the index does not map to them: in `order` in kInspect only.
  std::vector<TensorRef> unlisted;
  std::unordered_map<std::string_view, TensorRef>
      by_name;  // of `order`, the first of equal names; views into `shards`
  // Other models that operations take tensors from, in the order of the operations: their shards are numbered behind
  // these. Nothing above knows of them.
  std::vector<std::shared_ptr<const Checkpoint>> others{};

  Checkpoint() = default;
  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;
  // by_name points into shards.
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // By number, those of the others too.
  const Shard& shard(uint32_t number) const {
    return number < shards.size() ? shards[number] : shard_of_others(number);
  }
  // The number of the first shard of others[i]; of others.size(): the number of all shards.
  uint32_t first_shard(size_t other) const;
  const TensorInfo& info(TensorRef ref) const { return shard(ref.shard).header.tensors[ref.tensor]; }
  std::optional<TensorRef> find(std::string_view name) const;
  const SideFile* side_file(std::string_view name) const;
  // config.json's root object, or nothing.
  const JsonValue* config() const;

 private:
  const Shard& shard_of_others(uint32_t number) const;
};

// How strictly the shards are taken.
// kTransform: the model that a command converts (spec cli 1, tftf 1.1): any broken shard, missing tensor,
// duplicate … is an error. kInspect: everything that is there, broken or not (`info`, `lint`).
enum class ReadMode { kTransform, kInspect };

struct ReaderOptions {
  ReadMode mode = ReadMode::kTransform;
  uint64_t max_header = kDefaultMaxHeader;
  bool tail = false;  // look at the ends of files too (HeaderOptions::tail)
};

// Side files that the reader takes along: configuration of model, adapter and quantisation.
std::span<const std::string_view> side_file_names();

// The pump. A host goes round until done(): answer what want_files() asks by add_file(), read what want()
// asks and supply() it, in any order, several at a time. Each name and each range is asked for once. Nothing
// is asked for outside a regular, readable file's size. A host that ignores want_files() loses shards in
// subfolders, and side files when its listing is not of a folder.
class CheckpointReader {
 public:
  CheckpointReader(ModelListing listing, ReaderOptions options);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;

  // Files that the listing lacks and the reader has to know of: shards by the index, side files. Plain
  // relative paths that stay inside the folder.
  std::vector<std::string> want_files();
  // The answer: nothing when there is no such file.
  void add_file(const std::string& name, std::optional<FileEntry> entry);
  // All ranges that can be fetched now and were not asked for yet.
  std::vector<ReadRequest> want();
  // The bytes of a request, exactly as many; fewer are taken for a file that shrank.
  void supply(const ReadRequest& request, Bytes bytes);
  // The host could not read it: `reason` is an English phrase such as "permission denied".
  void fail(const ReadRequest& request, std::string reason);
  // Everything that was asked for was answered, or (kTransform) a refusal is certain.
  bool done() const;
  // Errors (kTransform): kRefusedInput for a broken, missing or unsafely named shard, an index that cannot be
  // trusted, a mapped tensor that is not there, a folder without a model; kIoRead for what could not be read.
  // kInspect gives everything that is there. Call once; what was not answered counts as not there.
  Result<Checkpoint> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
