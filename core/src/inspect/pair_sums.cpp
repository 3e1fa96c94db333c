#include "inspect/pair_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tftf/base/bytes.h"

namespace tftf {
namespace {

constexpr size_t kLanes = 16;

bool is_number(double x) { return std::fabs(x) <= std::numeric_limits<double>::max(); }

double tree_sum(const double (&parts)[kLanes]) {
  double sum[kLanes];
  std::copy(parts, parts + kLanes, sum);
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  return sum[0];
}

// 10 * log10(x) for finite x > 0 from multiplications and additions alone: libraries differ in the last digit, and
// reports must not.
double decibels(double x) {
  constexpr double kLn2 = 0.69314718055994530942, kTenPerLn10 = 4.3429448190325182765;
  int64_t exponent = 0;
  if (x < 1e-300) {
    x *= 18446744073709551616.0;  // 2^64
    exponent = -64;
  }
  const auto bits = bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 artanh((m - 1) / (m + 1)), |argument| < 0.172.
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  const double ln = static_cast<double>(exponent) * kLn2 + 2 * s * sum;
  return kTenPerLn10 * ln;
}

}  // namespace

void PairSums::note_largest(double difference, uint64_t index) {
  if (difference > distance_.max_abs) {
    distance_.max_abs = difference;
    distance_.max_abs_at = index;
  }
}

void PairSums::add_one(double x, double y, size_t lane, uint64_t index) {
  distance_.nan_left += std::isnan(x) ? 1 : 0;
  distance_.nan_right += std::isnan(y) ? 1 : 0;
  distance_.infinite_left += std::isinf(x) ? 1 : 0;
  distance_.infinite_right += std::isinf(y) ? 1 : 0;
  if (!is_number(x) || !is_number(y)) {
    const bool equal = x == y || (std::isnan(x) && std::isnan(y));
    distance_.differing += equal ? 0 : 1;
    distance_.unmatched += equal ? 0 : 1;
    return;
  }
  ++distance_.finite;
  const double d = x - y, size = std::fabs(d);
  if (x != y) ++distance_.differing;
  note_largest(size, index);
  const double relative = size / std::max(std::fabs(x), std::fabs(y));
  if (relative > distance_.max_relative) distance_.max_relative = relative;
  abs_[lane] += size;
  difference_[lane] += d * d;
  left_[lane] += x * x;
  right_[lane] += y * y;
  product_[lane] += x * y;
}

void PairSums::add(const double* x, const double* y, size_t count, uint64_t first) {
  distance_.count += count;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    // A difference of finite values that overflows is looked at one by one, too.
    double size[kLanes], relative[kLanes], whole = 0;
    uint64_t differing = 0;
    for (size_t k = 0; k < kLanes; ++k) {
      const double a = x[i + k], b = y[i + k];
      size[k] = std::fabs(a - b);
      const double left = std::fabs(a), right = std::fabs(b);
      relative[k] = size[k] / (left > right ? left : right);
      differing += a != b ? 1 : 0;
      whole += size[k] * 0;
    }
    if (whole != 0) {  // NaN: something is not finite
      for (size_t k = 0; k < kLanes; ++k) add_one(x[i + k], y[i + k], k, first + i + k);
      continue;
    }
    double largest = 0, largest_relative = 0;
    for (size_t k = 0; k < kLanes; ++k) {
      const double a = x[i + k], b = y[i + k], d = a - b;
      abs_[k] += size[k];
      difference_[k] += d * d;
      left_[k] += a * a;
      right_[k] += b * b;
      product_[k] += a * b;
      largest = size[k] > largest ? size[k] : largest;
      largest_relative = relative[k] > largest_relative ? relative[k] : largest_relative;
    }
    distance_.finite += kLanes;
    distance_.differing += differing;
    if (largest_relative > distance_.max_relative) distance_.max_relative = largest_relative;
    if (largest > distance_.max_abs)
      for (size_t k = 0; k < kLanes; ++k) note_largest(size[k], first + i + k);
  }
  for (; i < count; ++i) add_one(x[i], y[i], i % kLanes, first + i);
}

PairDistance PairSums::take() const {
  PairDistance out = distance_;
  out.sum_abs = tree_sum(abs_);
  out.sum_difference = tree_sum(difference_);
  out.sum_left = tree_sum(left_);
  out.sum_right = tree_sum(right_);
  out.sum_product = tree_sum(product_);
  return out;
}

void append(PairDistance& into, const PairDistance& next) {
  into.count += next.count;
  into.finite += next.finite;
  into.differing += next.differing;
  into.nan_left += next.nan_left;
  into.nan_right += next.nan_right;
  into.infinite_left += next.infinite_left;
  into.infinite_right += next.infinite_right;
  into.unmatched += next.unmatched;
  if (next.max_abs > into.max_abs) {
    into.max_abs = next.max_abs;
    into.max_abs_at = next.max_abs_at;
  }
  into.max_relative = std::max(into.max_relative, next.max_relative);
  into.sum_abs += next.sum_abs;
  into.sum_difference += next.sum_difference;
  into.sum_left += next.sum_left;
  into.sum_right += next.sum_right;
  into.sum_product += next.sum_product;
}

double PairDistance::mean_abs() const { return finite == 0 ? 0 : sum_abs / static_cast<double>(finite); }

double PairDistance::relative() const {
  if (sum_difference == 0) return 0;
  return sum_left == 0 ? std::numeric_limits<double>::infinity()
                       : std::sqrt(sum_difference) / std::sqrt(sum_left);
}

std::optional<double> PairDistance::cosine() const {
  if (!(sum_left > 0) || !(sum_right > 0)) return std::nullopt;
  const double cosine = sum_product / (std::sqrt(sum_left) * std::sqrt(sum_right));
  return std::clamp(cosine, -1.0, 1.0);
}

std::optional<double> PairDistance::sqnr() const {
  if (!(sum_left > 0)) return std::nullopt;
  const double ratio = sum_left / sum_difference;
  if (sum_difference == 0 || !is_number(ratio)) return std::numeric_limits<double>::infinity();
  return ratio == 0 ? -std::numeric_limits<double>::infinity() : decibels(ratio);
}

}  // namespace tftf
