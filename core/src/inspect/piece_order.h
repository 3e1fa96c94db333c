// What the passes over values share: pieces of many tasks numbered through, results joined in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tftf/inspect/value_pass.h"

namespace tftf {

// Elements of a piece: a block of docs/numerics.md, "Reductions".
inline constexpr uint64_t kPieceElements = kMomentBlock;
// Elements looked at at a time within a piece, in fast memory.
inline constexpr uint64_t kChunkElements = uint64_t{1} << 13;

// Tasks and their pieces, numbered one after the other.
class PieceTable {
 public:
  void clear() {
    firsts_.clear();
    count_ = 0;
  }
  void add_task(uint64_t pieces) {
    firsts_.push_back(count_);
    count_ += pieces;
  }
  uint64_t count() const { return count_; }
  // Tasks without pieces share their first one with the next: the last of equal ones owns the piece.
  size_t task_of(uint64_t piece) const {
    return static_cast<size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), piece) - firsts_.begin()) - 1;
  }
  uint64_t first_of(size_t task) const { return firsts_[task]; }

 private:
  std::vector<uint64_t> firsts_;
  uint64_t count_ = 0;
};

// Hands results on in the order of their pieces.
class PieceOrder {
 public:
  template <class Take>
  void add(uint64_t piece, std::unique_ptr<ValuePass::Found> found, Take&& take) {
    waiting_.emplace(piece, std::move(found));
    while (!waiting_.empty() && waiting_.begin()->first == next_) {
      const std::unique_ptr<ValuePass::Found> one = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      take(next_++, *one);
    }
  }
  void restart() {
    waiting_.clear();
    next_ = 0;
  }

 private:
  std::map<uint64_t, std::unique_ptr<ValuePass::Found>> waiting_;
  uint64_t next_ = 0;
};

}  // namespace tftf
