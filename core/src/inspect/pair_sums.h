// The distance of two runs of values (docs/numerics.md, "Distances").
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/inspect/comparison.h"

namespace tftf {

// Sums over one block; runs come in order and, but for the last, have a multiple of 16 elements.
class PairSums {
 public:
  // `first`: index of the first pair in its tensor.
  void add(const double* x, const double* y, size_t count, uint64_t first);
  // Pairs counted as equal whose 64-bit integers are not: doubles no longer tell them apart.
  void add_differing(uint64_t pairs) { distance_.differing += pairs; }
  // The block's distance: partial sums joined as a tree.
  PairDistance take() const;

 private:
  void add_one(double x, double y, size_t lane, uint64_t index);
  void note_largest(double difference, uint64_t index);

  PairDistance distance_;
  double abs_[16] = {};
  double difference_[16] = {};
  double left_[16] = {};
  double right_[16] = {};
  double product_[16] = {};
};

// Appends the next block: counts and sums are added, in block order.
void append(PairDistance& into, const PairDistance& next);

}  // namespace tftf
