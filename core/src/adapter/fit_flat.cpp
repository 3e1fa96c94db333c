#include "adapter/fit_flat.h"

#include "tftf/base/checked.h"

namespace tftf::fitting {
namespace {

// The logical matrices [out, in] of a reading.
struct Sides {
  uint64_t out = 0, in = 0;
};

Sides sides_of(const FlatPair& pair, bool crosswise) {
  return crosswise ? Sides{pair.in, pair.out} : Sides{pair.out, pair.in};
}

bool is_twice(uint64_t whole, uint64_t half) { return whole % 2 == 0 && whole / 2 == half; }

// Whether a pair may be the factors of a parameter; sets or compares the number of experts.
bool fits(const FlatPair& pair, bool down, bool crosswise, const FlatExperts& experts, uint64_t& count) {
  const uint64_t rank = down ? experts.down_rank : experts.up_rank;
  if (rank != 0) {
    if (pair.rows % rank != 0) return false;
    const uint64_t own = pair.rows / rank;
    if (own == 0 || (count != 0 && own != count)) return false;
    count = own;
  } else if (count == 0 || pair.rows % count != 0) {
    return false;
  }
  if (experts.inner == 0 || experts.outer == 0) return true;
  const Sides sides = sides_of(pair, crosswise);
  if (down) return sides.in == experts.inner && sides.out == experts.outer;
  const bool rows = experts.gated ? is_twice(sides.out, experts.inner) : sides.out == experts.inner;
  return rows && sides.in == experts.outer;
}

bool fit_together(const FlatPair& up, const FlatPair& down, bool crosswise, bool gated) {
  const Sides first = sides_of(up, crosswise), second = sides_of(down, crosswise);
  const bool inner = gated ? is_twice(first.out, second.in) : first.out == second.in;
  return inner && first.in == second.out;
}

}  // namespace

std::vector<FlatReading> flat_readings(const std::vector<FlatPair>& pairs, const FlatExperts& experts) {
  std::vector<FlatReading> readings;
  const bool sizes = experts.inner != 0 && experts.outer != 0;
  if (pairs.empty() || pairs.size() > 2 || (pairs.size() == 1 && !sizes)) return readings;
  if (pairs.size() == 2 && !(experts.up && experts.down)) return readings;
  for (const bool crosswise : {false, true}) {
    for (const bool first_down : {false, true}) {
      uint64_t count = experts.experts;
      const bool second_down = !first_down;
      if (!(first_down ? experts.down : experts.up)) continue;
      if (!fits(pairs[0], first_down, crosswise, experts, count)) continue;
      FlatReading reading{crosswise, {first_down}, 0};
      if (pairs.size() == 2) {
        if (!fits(pairs[1], second_down, crosswise, experts, count)) continue;
        const FlatPair& up = first_down ? pairs[1] : pairs[0];
        const FlatPair& down = first_down ? pairs[0] : pairs[1];
        if (!fit_together(up, down, crosswise, experts.gated)) continue;
        reading.is_down.push_back(second_down);
      }
      reading.experts = count;
      readings.push_back(std::move(reading));
    }
  }
  return readings;
}

}  // namespace tftf::fitting
