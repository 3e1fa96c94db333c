// The folder that a colibri tool reads: its shards by name, whatever an index says (spec colibri 4.1.6).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf::colibri {

class FolderSource {
 public:
  // Errors: kRefusedMissing without a shard, kRefusedInput for a broken one. The checkpoint must outlive it.
  static Result<FolderSource> open(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Numbers of the shards, sorted by name.
  std::span<const uint32_t> shards() const { return shards_; }
  const Shard& shard(uint32_t number) const { return checkpoint_->shards[number]; }
  const TensorInfo& info(TensorRef ref) const { return checkpoint_->info(ref); }
  // Of one shard, sorted by name.
  std::vector<TensorRef> tensors(uint32_t shard) const;
  std::optional<TensorRef> find(uint32_t shard, std::string_view name) const;
  // In any shard, the first that has it.
  std::optional<TensorRef> find(std::string_view name) const;
  // `tensor "x" of "model.safetensors"`, for messages.
  std::string described(TensorRef ref) const;
  // kRefusedUnsupported naming tensor and file: `Tensor "x" of "model.safetensors" WHY.`
  Error refusal(TensorRef ref, const std::string& why) const;

 private:
  const Checkpoint* checkpoint_ = nullptr;
  std::vector<uint32_t> shards_;
  std::vector<std::unordered_map<std::string_view, uint32_t>> names_;  // by shard number
};

}  // namespace tftf::colibri
