#include "lint/layout/checkpoint_view.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tftf {

CheckpointView::CheckpointView(Tree& tree, std::vector<uint32_t> files, const TreeFolder* folder)
    : tree_(tree), files_(std::move(files)) {
  for (const std::string_view name : side_file_names()) {
    const TreeFile* file = folder ? tree.file_in(*folder, name) : nullptr;
    if (!file || !file->has_text()) continue;
    SideFile& side = checkpoint_.side_files.emplace_back();
    side.name = std::string(name);
    side.document = parse_json(file->text, JsonDialect::kPython);
  }
}

void CheckpointView::lend() {
  size_t count = 0;
  for (const uint32_t number : files_) {
    TreeFile& file = tree_.files[number];
    Shard& shard = checkpoint_.shards.emplace_back();
    shard.name = std::string(file.path);
    shard.size = file.size;
    shard.readable = true;
    shard.status = file.sound() ? ShardStatus::kOk : ShardStatus::kBroken;
    shard.header = std::move(file.scan->header);
    count += shard.header.tensors.size();
  }
  checkpoint_.order.reserve(count);
  checkpoint_.by_name.reserve(count);
  for (uint32_t s = 0; s < checkpoint_.shards.size(); ++s) {
    const std::vector<TensorInfo>& tensors = checkpoint_.shards[s].header.tensors;
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      checkpoint_.order.push_back({s, t});
      const auto [at, fresh] = checkpoint_.by_name.emplace(tensors[t].name, TensorRef{s, t});
      duplicates_ = duplicates_ || !fresh;
      at->second = {s, t};  // of equal names the last counts
    }
  }
  if (duplicates_)
    std::erase_if(checkpoint_.order, [&](TensorRef ref) {
      const TensorRef last = checkpoint_.by_name.at(checkpoint_.info(ref).name);
      return last.shard != ref.shard || last.tensor != ref.tensor;
    });
  std::sort(checkpoint_.order.begin(), checkpoint_.order.end(), [&](TensorRef a, TensorRef b) {
    return std::pair(a.shard, std::string_view(checkpoint_.info(a).name)) <
           std::pair(b.shard, std::string_view(checkpoint_.info(b).name));
  });
}

void CheckpointView::give_back() {
  for (size_t i = 0; i < checkpoint_.shards.size(); ++i)
    tree_.files[files_[i]].scan->header = std::move(checkpoint_.shards[i].header);
  checkpoint_.shards.clear();
  checkpoint_.order.clear();
  checkpoint_.by_name.clear();
}

}  // namespace tftf
