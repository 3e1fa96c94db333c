// The reader pump: a small folder whose files, listing and answers come from the input. Format: one byte mode, one
// byte kind, then records of one byte name, one byte fate, two bytes length, the file's bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "input.h"
#include "tftf/base/bytes.h"
#include "tftf/checkpoint/checkpoint.h"

namespace {

using tftf::fuzz::Input;
using tftf::fuzz::require;

using namespace tftf;

constexpr const char* kNames[] = {"model.safetensors",
                                  "model.safetensors.index.json",
                                  "model-00001-of-00002.safetensors",
                                  "model-00002-of-00002.safetensors",
                                  "adapter_model.safetensors",
                                  "adapter_config.json",
                                  "config.json",
                                  "sub/x.safetensors",
                                  "model.fp16.safetensors.index.json",
                                  "other.txt"};

struct File {
  std::string bytes;
  uint8_t fate = 0;  // 1: fails when read, 2: shorter than listed, 3: unreadable, 4: FIFO, 5: folder
};

FileEntry describe(const std::string& name, const File& file) {
  FileEntry entry{name, file.bytes.size(), true, {}};
  if (file.fate == 3) entry.unreadable = "permission denied";
  entry.folder = file.fate == 5;
  entry.regular = file.fate != 4 && file.fate != 5;
  return entry;
}

void answer(CheckpointReader& reader, const ReadRequest& request, const File& file) {
  const std::string_view bytes = file.bytes;
  require(file.fate < 3);
  require(request.range.length > 0 && request.range.offset <= bytes.size());
  require(request.range.length <= bytes.size() - request.range.offset);
  const std::string piece(bytes.substr(request.range.offset, request.range.length));
  if (file.fate == 1)
    reader.fail(request, "input/output error");
  else
    reader.supply(request,
                  as_bytes(std::string_view(piece).substr(0, piece.size() - (file.fate == 2 ? 1 : 0))));
}

void check(const Checkpoint& checkpoint, bool transform) {
  for (const auto* list : {&checkpoint.order, &checkpoint.unlisted})
    for (const TensorRef ref : *list) {
      require(ref.shard < checkpoint.shards.size());
      require(ref.tensor < checkpoint.shards[ref.shard].header.tensors.size());
    }
  for (const auto& [name, ref] : checkpoint.by_name) require(checkpoint.info(ref).name == name);
  if (!transform) return;
  require(checkpoint.by_name.size() == checkpoint.order.size());
  for (const Shard& shard : checkpoint.shards) require(shard.status == ShardStatus::kOk && shard.listed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input({reinterpret_cast<const char*>(data), size});
  const uint8_t mode = input.byte();
  const uint8_t kind = input.byte();
  std::map<std::string, File> files;
  while (!input.empty()) {
    const std::string name = kNames[input.byte() % std::size(kNames)];
    File file;
    file.fate = static_cast<uint8_t>(input.byte() % 6);
    const size_t length = input.byte() + size_t{256} * input.byte();
    file.bytes = input.text(length);
    files[name] = std::move(file);
  }
  ModelListing listing;
  listing.kind = static_cast<ModelListing::Kind>(kind % 3);
  listing.given = "fuzz";
  if (listing.kind != ModelListing::Kind::kFolder) listing.main = kNames[kind / 3 % std::size(kNames)];
  for (const auto& [name, file] : files)
    if (name.find('/') == std::string::npos) listing.files.push_back(describe(name, file));
  const bool transform = mode % 2 == 0;
  CheckpointReader reader(
      listing, {transform ? ReadMode::kTransform : ReadMode::kInspect, kDefaultMaxHeader, mode % 4 >= 2});
  std::vector<ReadRequest> waiting;
  for (int round = 0; !reader.done(); ++round) {
    require(round < 1000);
    for (const std::string& name : reader.want_files()) {
      const auto file = files.find(name);
      if (file == files.end())
        reader.add_file(name, std::nullopt);
      else
        reader.add_file(name, describe(name, file->second));
    }
    for (ReadRequest& request : reader.want()) waiting.push_back(std::move(request));
    if (waiting.empty()) continue;
    const size_t pick = mode / 4 % waiting.size();
    const ReadRequest request = waiting[pick];
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(pick));
    answer(reader, request, files.at(request.file));
  }
  const auto checkpoint = reader.take();
  require(transform || checkpoint.ok());
  if (checkpoint)
    check(*checkpoint, transform);
  else
    require(!checkpoint.error().message.empty());
  return 0;
}
