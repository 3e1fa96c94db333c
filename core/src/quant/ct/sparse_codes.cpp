// Elements without the zeros among them (spec compressed-tensors 2.8).
#include <cstring>
#include <utility>

#include "quant/ct/coding.h"
#include "tftf/base/checked.h"

namespace tftf::ct {
namespace {

bool has_minus_zero(const Coding& c) {
  return c.target == Target::kF8 || (c.target == Target::kValues && is_floating(c.type));
}

}  // namespace

bool is_nonzero(const std::byte* element, uint64_t size, bool floats) noexcept {
  std::byte any = element[to_size(size - 1)];
  if (floats) any &= std::byte{0x7F};
  for (uint64_t b = 0; b + 1 < size; ++b) any |= element[to_size(b)];
  return any != std::byte{0};
}

uint64_t mask_bytes(const Coding& c) noexcept { return ceil_div(c.columns, 8); }

uint64_t thin_out(const Coding& c, const std::byte* codes, uint64_t count, std::byte* stored,
                  std::byte* mask) noexcept {
  const uint64_t size = c.element_bytes();
  const bool floats = has_minus_zero(c);
  uint64_t lost = 0;
  for (uint64_t i = 0; i < count; i += 4) {
    uint32_t nonzero = 0;
    for (uint32_t k = 0; k < 4; ++k)
      nonzero |= (is_nonzero(codes + to_size((i + k) * size), size, floats) ? 1u : 0u) << k;
    uint32_t kept = kept_of_four(nonzero);
    if (kept == 0) {
      ++lost;
      kept = 3;
    }
    for (uint32_t k = 0; k < 4; ++k) {
      if ((kept >> k & 1) == 0) continue;
      std::memcpy(stored, codes + to_size((i + k) * size), to_size(size));
      stored += to_size(size);
      const uint64_t row = (i + k) / c.columns, column = (i + k) % c.columns;
      mask[to_size(row * mask_bytes(c) + column / 8)] |= static_cast<std::byte>(1u << (column % 8));
    }
  }
  return lost;
}

uint64_t keep_nonzero(const Coding& c, const std::byte* codes, uint64_t expected, std::byte* stored,
                      std::byte* mask) noexcept {
  const uint64_t size = c.element_bytes();
  const bool floats = has_minus_zero(c);
  uint64_t found = 0;
  for (uint64_t i = 0; i < c.columns; ++i) {
    const std::byte* at = codes + to_size(i * size);
    if (!is_nonzero(at, size, floats)) continue;
    if (found < expected) std::memcpy(stored + to_size(found * size), at, to_size(size));
    ++found;
    mask[to_size(i / 8)] |= static_cast<std::byte>(1u << (i % 8));
  }
  return found > expected ? found - expected : expected - found;
}

// The search looks at the second of four places: the median of the last three becomes the pivot, and what is larger comes
// before it. With ties this decides which zeros are kept.
uint32_t kept_of_four(uint32_t nonzero) noexcept {
  const auto ones = static_cast<uint32_t>(__builtin_popcount(nonzero));
  if (ones > 2) return 0;
  if (ones == 2) return nonzero;
  uint32_t order[4] = {0, 1, 2, 3};
  const auto more = [&](uint32_t a, uint32_t b) { return (nonzero >> a & 1) > (nonzero >> b & 1); };
  const auto to_front = [&](uint32_t place) { std::swap(order[0], order[place]); };
  const uint32_t a = order[1], b = order[2], d = order[3];
  if (more(a, b))
    to_front(more(b, d) ? 2 : more(a, d) ? 3 : 1);
  else
    to_front(more(a, d) ? 1 : more(b, d) ? 3 : 2);
  uint32_t first = 1, last = 4;
  while (true) {
    while (more(order[first], order[0])) ++first;
    --last;
    while (more(order[0], order[last])) --last;
    if (first >= last) break;
    std::swap(order[first], order[last]);
    ++first;
  }
  // What remains is at most three places, put in order one by one; equal ones keep theirs.
  const uint32_t begin = first <= 1 ? first : 0, end = first <= 1 ? 4 : first;
  for (uint32_t i = begin + 1; i < end; ++i)
    for (uint32_t k = i; k > begin && more(order[k], order[k - 1]); --k) std::swap(order[k], order[k - 1]);
  return 1u << order[0] | 1u << order[1];
}

}  // namespace tftf::ct
