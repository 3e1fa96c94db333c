// The parts of the data pass that look at scales with their codes, and at stacked experts.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tftf/lint/data_pass.h"

namespace tftf {

// Second stage: the scales that the first has seen to hold zeros or negative values, whole rows with the codes under them.
class ScalePieces {
 public:
  // `checks`: in LintResult::scale_checks.
  void cut(const LintResult& result, const std::vector<uint32_t>& checks);

  uint64_t count() const { return pieces_.size(); }
  uint64_t bytes() const { return bytes_; }
  DataPass::Piece piece(uint64_t index) const;
  ScaleSeen run(uint64_t index, Bytes scales, Bytes codes) const;
  void add(uint64_t index, const ScaleSeen& seen) {
    seen_[pieces_[static_cast<size_t>(index)].check].merge(seen);
  }
  // By check.
  const std::unordered_map<uint32_t, ScaleSeen>& seen() const { return seen_; }

 private:
  struct Cut {
    uint32_t check = 0;
    uint64_t first = 0;  // element of the scales
    uint64_t count = 0;
    uint64_t code_begin = 0;  // in the codes; no codes when the length is 0
    uint64_t code_length = 0;
  };
  void cut_scales(uint32_t number, uint64_t elements, uint64_t width);
  void cut_rows(uint32_t number, uint64_t width);
  const TensorInfo& info(TensorPlace place) const {
    return result_->files[place.file].scan.header.tensors[place.tensor];
  }

  const LintResult* result_ = nullptr;
  std::vector<Cut> pieces_;
  uint64_t bytes_ = 0;
  std::unordered_map<uint32_t, ScaleSeen> seen_;
};

// The experts, as first and last of runs, of which bytes from `offset` on hold an element that is not zero. `found`: the
// scan of the same bytes.
std::vector<std::pair<uint32_t, uint32_t>> live_experts(const ExpertStack& stack, DType dtype,
                                                        uint64_t offset, Bytes bytes, const Scan& found);

// Where checks are looked up by the tensor that they look at.
class PlaceTable {
 public:
  void insert(TensorPlace place, uint32_t number) { numbers_.emplace(key(place), number); }
  // kNone when there is none.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t find(TensorPlace place) const {
    const auto found = numbers_.find(key(place));
    return found == numbers_.end() ? kNone : found->second;
  }

 private:
  static uint64_t key(TensorPlace place) { return uint64_t{place.file} << 32 | place.tensor; }
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

}  // namespace tftf
