// What the data pass (lint --data, stats) learns from a run of elements. Both records merge: a Scan over any
// tiles in any order, Moments only within one fixed block (docs/numerics.md, "Reductions").
#pragma once

#include <cstdint>

#include "tftf/base/dtype.h"

namespace tftf {

// Exact counts and extremes. C64: an element counts once if either part qualifies (zero: if both do; never
// negative); the extremes are those of the parts. Integers have no NaN, infinity or subnormals, F4 and F6 no
// NaN or infinity.
struct Scan {
  static constexpr uint64_t kNone = UINT64_MAX;

  uint64_t count = 0;      // elements seen
  uint64_t nan = 0;        // safetensors spec 3.1, table 1
  uint64_t inf = 0;        // either sign
  uint64_t zero = 0;       // either sign
  uint64_t subnormal = 0;  // exponent field 0, fraction not 0 (none for F8_E8M0)
  uint64_t negative = 0;   // x < 0, infinity included, -0 and NaN not
  uint64_t extreme = 0;    // finite with |x| >= 2^64
  uint64_t bad_bool = 0;   // BOOL bytes other than 0 and 1
  uint64_t first_nan = kNone, first_inf = kNone, first_bad_bool = kNone;  // smallest index seen
  // Extremes of the finite values (BOOL: of the bytes) as order-preserving keys, see scan_value(). -0 sorts
  // below +0.
  int64_t min_key = INT64_MAX, max_key = INT64_MIN;
  // All elements seen have the bits `first_bits` (of the first element seen). True while count is 0.
  bool constant = true;
  uint64_t first_bits = 0;

  bool has_range() const { return min_key <= max_key; }
  bool all_zero_bits() const { return constant && first_bits == 0; }
  friend bool operator==(const Scan&, const Scan&) = default;
};

// Adds what another run of the same tensor gave. Associative and commutative (`first_bits` matters only when
// all agree; when `constant` is false it is 0).
void merge(Scan& into, const Scan& from) noexcept;

// The finite value behind a key, and its bits as stored (right-aligned; C64: of one F32 part). Exact but for
// I64 and U64 beyond 2^53, whose exact value is scan_bits().
double scan_value(DType dtype, int64_t key) noexcept;
uint64_t scan_bits(DType dtype, int64_t key) noexcept;
// max(|min|, |max|) of the finite values, 0 when there are none.
double scan_max_magnitude(DType dtype, const Scan& scan) noexcept;

// Sums over one block of kMomentBlock elements (the tensor's last may be shorter), made in f64 in a fixed
// order so that every kernel and every split of the block into runs gives the same bits, provided the runs
// come in order: element i of the block with finite value x adds d = x - pivot to sum[i % 16] and d * d (one
// rounding each) to square[i % 16]; the pivot is the block's first finite value. Not for C64.
struct Moments {
  double sum[16] = {};
  double square[16] = {};
  double pivot = 0;
  uint64_t finite = 0;
};
inline constexpr uint64_t kMomentBlock = uint64_t{1} << 20;

// Mean and sum of squared deviations of the finite elements of whole blocks.
struct MeanSpread {
  uint64_t count = 0;
  double mean = 0;
  double spread = 0;  // sum of (x - mean)^2; the population variance is spread / count
};
// The 16 partial sums are added as a tree (i with i + 8, then + 4, + 2, + 1).
MeanSpread block_result(const Moments& moments) noexcept;
// Appends the next block (Chan's update); call in block order.
void append(MeanSpread& into, const MeanSpread& next) noexcept;

}  // namespace tftf
