#include "tftf/simd/scan.h"

#include <cmath>
#include <cstring>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

namespace tftf {

void merge(Scan& into, const Scan& from) noexcept {
  if (from.count == 0) return;
  if (into.count == 0) {
    into.constant = from.constant;
    into.first_bits = from.first_bits;
  } else if (!from.constant || from.first_bits != into.first_bits) {
    into.constant = false;
  }
  if (!into.constant) into.first_bits = 0;
  into.count += from.count;
  into.nan += from.nan;
  into.inf += from.inf;
  into.zero += from.zero;
  into.subnormal += from.subnormal;
  into.negative += from.negative;
  into.extreme += from.extreme;
  into.bad_bool += from.bad_bool;
  if (from.first_nan < into.first_nan) into.first_nan = from.first_nan;
  if (from.first_inf < into.first_inf) into.first_inf = from.first_inf;
  if (from.first_bad_bool < into.first_bad_bool) into.first_bad_bool = from.first_bad_bool;
  if (from.min_key < into.min_key) into.min_key = from.min_key;
  if (from.max_key > into.max_key) into.max_key = from.max_key;
}

uint64_t scan_bits(DType dtype, int64_t key) noexcept {
  const uint32_t bits = dtype == DType::C64 ? 32 : dtype_bits(dtype);
  const uint64_t all = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  if (dtype == DType::U64) return static_cast<uint64_t>(key) ^ (uint64_t{1} << 63);
  const bool sign_magnitude = (is_floating(dtype) && dtype != DType::F8_E8M0) || dtype == DType::C64;
  if (sign_magnitude && key < 0) return ~static_cast<uint64_t>(key) | (uint64_t{1} << (bits - 1));
  return static_cast<uint64_t>(key) & all;
}

double scan_value(DType dtype, int64_t key) noexcept {
  const uint64_t bits = scan_bits(dtype, key);
  std::byte element[8];
  std::memcpy(element, &bits, 8);
  if (dtype == DType::BOOL) return static_cast<double>(key);
  return element_as_f64(dtype == DType::C64 ? DType::F32 : dtype, element, 0);
}

double scan_max_magnitude(DType dtype, const Scan& scan) noexcept {
  if (!scan.has_range()) return 0;
  const double low = std::fabs(scan_value(dtype, scan.min_key));
  const double high = std::fabs(scan_value(dtype, scan.max_key));
  return low > high ? low : high;
}

MeanSpread block_result(const Moments& moments) noexcept {
  if (moments.finite == 0) return {};
  double sum[16], square[16];
  std::memcpy(sum, moments.sum, sizeof(sum));
  std::memcpy(square, moments.square, sizeof(square));
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      sum[i] += sum[i + half];
      square[i] += square[i + half];
    }
  }
  const double n = static_cast<double>(moments.finite);
  const double shift = sum[0] / n;
  const double rest = sum[0] * shift;
  const double spread = square[0] - rest;
  return {moments.finite, moments.pivot + shift, spread > 0 ? spread : 0};
}

void append(MeanSpread& into, const MeanSpread& next) noexcept {
  if (next.count == 0) return;
  if (into.count == 0) {
    into = next;
    return;
  }
  const double a = static_cast<double>(into.count), b = static_cast<double>(next.count);
  const double delta = next.mean - into.mean;
  const double share = b / (a + b);
  into.mean += delta * share;
  into.spread += next.spread + delta * delta * (a * share);
  into.count += next.count;
}

}  // namespace tftf
