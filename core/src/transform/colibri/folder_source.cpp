#include "transform/colibri/folder_source.h"

#include <algorithm>

#include "checkpoint/refusal.h"
#include "tftf/base/escape.h"

namespace tftf::colibri {

Result<FolderSource> FolderSource::open(const Checkpoint& checkpoint) {
  FolderSource source;
  source.checkpoint_ = &checkpoint;
  source.names_.resize(checkpoint.shards.size());
  for (uint32_t s = 0; s < checkpoint.shards.size(); ++s) {
    const Shard& shard = checkpoint.shards[s];
    if (shard.status == ShardStatus::kMissing || shard.name.find('/') != std::string::npos) continue;
    source.shards_.push_back(s);
  }
  std::sort(source.shards_.begin(), source.shards_.end(),
            [&](uint32_t a, uint32_t b) { return checkpoint.shards[a].name < checkpoint.shards[b].name; });
  if (source.shards_.empty()) {
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = quote_name(checkpoint.listing.given) + " holds no .safetensors file.",
                 .file = checkpoint.listing.given};
  }
  for (const uint32_t s : source.shards_) {
    const Shard& shard = checkpoint.shards[s];
    if (shard.status != ShardStatus::kOk) return refuse_shard(shard);
    for (uint32_t t = 0; t < shard.header.tensors.size(); ++t)
      source.names_[s].emplace(shard.header.tensors[t].name, t);
  }
  return source;
}

std::vector<TensorRef> FolderSource::tensors(uint32_t shard) const {
  std::vector<TensorRef> list;
  for (uint32_t t = 0; t < checkpoint_->shards[shard].header.tensors.size(); ++t) list.push_back({shard, t});
  std::sort(list.begin(), list.end(),
            [this](TensorRef a, TensorRef b) { return info(a).name < info(b).name; });
  return list;
}

std::optional<TensorRef> FolderSource::find(uint32_t shard, std::string_view name) const {
  const auto found = names_[shard].find(name);
  if (found == names_[shard].end()) return std::nullopt;
  return TensorRef{shard, found->second};
}

std::optional<TensorRef> FolderSource::find(std::string_view name) const {
  for (const uint32_t s : shards_)
    if (const auto found = find(s, name)) return found;
  return std::nullopt;
}

std::string FolderSource::described(TensorRef ref) const {
  return "tensor " + quote_name(info(ref).name) + " of " + quote_name(shard(ref.shard).name);
}

Error FolderSource::refusal(TensorRef ref, const std::string& why) const {
  std::string what = described(ref);
  what[0] = 'T';
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = what + " " + why + ".",
          .file = shard(ref.shard).name,
          .tensor = info(ref).name};
}

}  // namespace tftf::colibri
