#include "tftf/checkpoint/checkpoint.h"

#include <algorithm>

namespace tftf {

std::string_view shard_status_name(ShardStatus status) {
  constexpr std::string_view kNames[] = {"ok", "missing", "broken", "pointer"};
  return kNames[static_cast<size_t>(status)];
}

std::span<const std::string_view> side_file_names() {
  static constexpr std::string_view kNames[] = {
      "config.json",          "adapter_config.json", "quantize_config.json", "quant_config.json",
      "hf_quant_config.json", "model_index.json",    "params.json"};
  return kNames;
}

uint32_t Checkpoint::first_shard(size_t other) const {
  size_t count = shards.size();
  for (size_t i = 0; i < other; ++i) count += others[i]->shards.size();
  return static_cast<uint32_t>(count);
}

const Shard& Checkpoint::shard_of_others(uint32_t number) const {
  size_t left = number - shards.size();
  size_t other = 0;
  while (left >= others[other]->shards.size()) left -= others[other++]->shards.size();
  return others[other]->shards[left];
}

std::optional<TensorRef> Checkpoint::find(std::string_view name) const {
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

const SideFile* Checkpoint::side_file(std::string_view name) const {
  const auto found = std::find_if(side_files.begin(), side_files.end(),
                                  [&](const SideFile& file) { return file.name == name; });
  return found == side_files.end() ? nullptr : &*found;
}

const JsonValue* Checkpoint::config() const {
  const SideFile* file = side_file("config.json");
  return file && file->document.root.is_object() ? &file->document.root : nullptr;
}

}  // namespace tftf
