// Steps that make new factors from stored ones.
#pragma once

#include <memory>
#include <vector>

#include "tftf/adapter/low_rank.h"
#include "tftf/plan/plan.h"

namespace tftf::lowrank {

// A stored pair, as one of those whose product is made anew. Its extents are the item's inputs: up, down, and the middle
// factor where there is one.
struct PairInput {
  DType up_dtype{}, down_dtype{}, mid_dtype{};
  bool up_rank_last = true, down_rank_last = false, has_mid = false;
  uint64_t rank = 0, down_rank = 0;
  uint64_t kernel = 1;  // elements, of the middle factor
  double up_scale = 1, down_scale = 1;
};

// What becomes of a module's pairs.
struct FactorTask {
  enum class Kind : uint8_t {
    kLowRank,  // the best approximation of their sum
    kStack,    // one below the other
    kSum,      // added, which the ranks allow
  };
  Kind kind = Kind::kLowRank;
  std::vector<PairInput> pairs{};
  uint64_t rows = 0, cols = 0;  // of the product
  RankChoice choice{};
  uint64_t most = 1;  // at most so many are kept
  DType up_to{}, down_to{};
  bool up_rank_last = true, down_rank_last = false;

  // Set once it is known, before the steps that write.
  mutable uint64_t kept = 0;
  // What the measuring step found, where there is room to keep it: a step that does not find it here finds it again.
  struct Memo {
    bool there = false;
    std::vector<double> values{}, left{}, right{};
  };
  mutable std::unique_ptr<Memo> memo{};

  uint64_t rank() const;  // of all pairs
};

// Inputs: those of the pairs, in their order. Value: n[0] the rank to keep, n[1] 1 when something is not finite, x[0] the share
// of the norm that is kept.
extern const TileOp kMeasureRankOp;
// Outputs: up, down. Value: n[0] elements of either that became infinite, n[1] 1 when something is not finite.
extern const TileOp kWriteFactorsOp;

}  // namespace tftf::lowrank
