// An index of any text beside two shards: what is accepted holds what the index says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "input.h"
#include "tftf/base/bytes.h"
#include "tftf/checkpoint/checkpoint.h"

namespace {

using tftf::fuzz::require;

using namespace tftf;

constexpr const char* kIndex = "model.safetensors.index.json";

// Every file that the index names holds the tensors "a" and "b".
std::string shard_bytes() {
  const auto header = write_header({{"a", DType::U8, {}}, {"b", DType::U8, {}}}, {}, HeaderForm::kReference);
  require(header.ok());
  return *header + "xy";
}

void read(std::string_view text, ReadMode mode) {
  static const std::string shard = shard_bytes();
  ModelListing listing;
  listing.given = listing.main = kIndex;
  listing.kind = ModelListing::Kind::kIndex;
  listing.files.push_back({kIndex, text.size(), true, {}});
  CheckpointReader reader(listing, {mode});
  for (int round = 0; !reader.done(); ++round) {
    require(round < 1000);
    for (const std::string& name : reader.want_files()) {
      // "..x" is a plain name; only a whole component leads out.
      require(!name.empty() && name[0] != '/' && name.find('\\') == std::string::npos);
      require(("/" + name + "/").find("/../") == std::string::npos);
      const bool weights = name.size() > 12 && name.substr(name.size() - 12) == ".safetensors";
      if (weights)
        reader.add_file(name, FileEntry{name, shard.size(), true, {}});
      else
        reader.add_file(name, std::nullopt);
    }
    for (const ReadRequest& request : reader.want()) {
      const std::string_view file = request.file == kIndex ? text : std::string_view(shard);
      require(request.range.length > 0 && request.range.offset + request.range.length <= file.size());
      reader.supply(request, as_bytes(file.substr(request.range.offset, request.range.length)));
    }
  }
  const auto checkpoint = reader.take();
  require(mode == ReadMode::kTransform || checkpoint.ok());
  if (!checkpoint) return;
  for (const TensorRef ref : checkpoint->order) {
    require(ref.shard < checkpoint->shards.size());
    require(ref.tensor < checkpoint->shards[ref.shard].header.tensors.size());
  }
  if (mode == ReadMode::kInspect) return;
  require(checkpoint->order.size() == checkpoint->by_name.size());
  for (const TensorRef ref : checkpoint->order)
    require(checkpoint->find(checkpoint->info(ref).name).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(text, ReadMode::kTransform);
  read(text, ReadMode::kInspect);
  return 0;
}
