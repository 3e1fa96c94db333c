// Sets of byte ranges: what a run has finished.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tftf {

struct ByteSpan {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const ByteSpan&) const = default;
};

// Disjoint, ascending, neighbours joined.
class RangeSet {
 public:
  // [begin, end), which may overlap what is there; empty ones are ignored.
  void add(uint64_t begin, uint64_t end);
  // An empty range is always covered.
  bool covers(uint64_t begin, uint64_t end) const;
  uint64_t bytes() const;
  bool empty() const { return spans_.empty(); }
  std::span<const ByteSpan> spans() const { return spans_; }

 private:
  std::vector<ByteSpan> spans_;
};

}  // namespace tftf
