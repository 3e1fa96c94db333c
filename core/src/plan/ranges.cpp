#include "tftf/plan/ranges.h"

#include <algorithm>

namespace tftf {

void RangeSet::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  // Steps finish nearly in order, so the place is nearly always the end.
  const auto first = std::lower_bound(spans_.begin(), spans_.end(), begin,
                                      [](const ByteSpan& span, uint64_t at) { return span.end < at; });
  auto last = first;
  for (; last != spans_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    spans_.insert(first, {begin, end});
    return;
  }
  *first = {begin, end};
  spans_.erase(first + 1, last);
}

bool RangeSet::covers(uint64_t begin, uint64_t end) const {
  if (begin >= end) return true;
  const auto after = std::upper_bound(spans_.begin(), spans_.end(), begin,
                                      [](uint64_t at, const ByteSpan& span) { return at < span.begin; });
  return after != spans_.begin() && (after - 1)->end >= end;
}

uint64_t RangeSet::bytes() const {
  uint64_t bytes = 0;
  for (const ByteSpan& span : spans_) bytes += span.end - span.begin;
  return bytes;
}

}  // namespace tftf
