#include "transform/colibri/output_check.h"

#include <algorithm>
#include <unordered_map>

#include "tftf/base/escape.h"

namespace tftf::colibri {
namespace {

Error refused_stamps(const StampRefusal& refusal) {
  return {.code = ErrorCode::kRefusedOutput,
          .message = "The stamps of the output folder would be refused (" +
                     std::string(stamp_fault_class(refusal.fault)) + "): " + refusal.detail,
          .file = refusal.file,
          .tensor = refusal.tensor};
}

// Shards of the folder that stay, sorted by name.
Result<std::vector<const Shard*>> staying(const Checkpoint* existing, const std::vector<PlannedFile>& files) {
  std::vector<const Shard*> shards;
  if (existing == nullptr) return shards;
  std::set<std::string_view> replaced;
  for (const PlannedFile& file : files) replaced.insert(file.name);
  for (const Shard& shard : existing->shards) {
    if (shard.status == ShardStatus::kMissing || shard.name.find('/') != std::string::npos) continue;
    if (replaced.count(shard.name) != 0) continue;
    if (shard.status != ShardStatus::kOk) {
      return Error{
          .code = ErrorCode::kRefusedOutput,
          .message = "The output folder holds " + quote_name(shard.name) +
                     ", which is not a sound safetensors file: what it stores and stamps is unknown.",
          .file = shard.name};
    }
    shards.push_back(&shard);
  }
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  return shards;
}

}  // namespace

Result<uint64_t> check_outputs(const Checkpoint* existing, const std::vector<PlannedFile>& files) {
  auto shards = staying(existing, files);
  if (!shards) return std::move(shards).error();
  std::unordered_map<std::string_view, std::string_view> holder;
  StampMap stamps;
  for (const Shard* shard : *shards) {
    for (const TensorInfo& tensor : shard->header.tensors) holder.emplace(tensor.name, shard->name);
    const std::string* text = nullptr;
    for (const auto& [key, value] : shard->header.metadata)
      if (key == kStampKey) text = &value;
    if (const auto refusal = stamps.ingest(shard->name, text, false)) return refused_stamps(*refusal);
  }
  for (const PlannedFile& file : files) {
    for (const std::string& tensor : file.tensors) {
      const auto [at, fresh] = holder.emplace(tensor, file.name);
      if (fresh) continue;
      const bool same = at->second == file.name;
      return Error{.code = ErrorCode::kRefusedCollision,
                   .message = "Tensor " + quote_name(tensor) + " would stand in " + quote_name(file.name) +
                              (same ? " twice" : " and in " + quote_name(at->second)) +
                              " (duplicate-tensor).",
                   .file = std::string(at->second),
                   .tensor = tensor};
    }
    if (file.stamps.empty()) continue;
    const std::string text = stamp_text(file.stamps);
    if (const auto refusal = stamps.ingest(file.name, &text, false)) return refused_stamps(*refusal);
  }
  return uint64_t{stamps.all().size()};
}

}  // namespace tftf::colibri
