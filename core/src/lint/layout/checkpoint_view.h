// Files of a tree as one checkpoint, so that what reads checkpoints reads what is linted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lint/tree.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// Headers are lent, not copied: from lend() to give_back() the tree's scans of these files have empty ones. Addresses of
// their tensors stay.
class CheckpointView {
 public:
  // `files`: of Tree::files, readable ones. `folder`: whose side files belong to it; null: none.
  CheckpointView(Tree& tree, std::vector<uint32_t> files, const TreeFolder* folder);

  void lend();
  void give_back();

  const Checkpoint& checkpoint() const { return checkpoint_; }
  uint32_t file_of(uint32_t shard) const { return files_[shard]; }
  size_t size() const { return files_.size(); }
  // Two files hold a tensor of one name.
  bool has_duplicates() const { return duplicates_; }

 private:
  Tree& tree_;
  std::vector<uint32_t> files_;
  Checkpoint checkpoint_;
  bool duplicates_ = false;
};

}  // namespace tftf
