// The data pass: the scalar kernel against the values of the elements, the other tables against the scalar
// one, and the merging of runs.
#include "tftf/simd/scan.h"

#include "kernel_tables.h"
#include "tftf/simd/floats.h"

#include <algorithm>
#include <cmath>

using namespace tftf;
using namespace tftf::test;

namespace {

uint64_t words(DType dtype) { return dtype_bits(dtype) == 6 ? 4 : dtype_bits(dtype) == 4 ? 2 : 1; }

// By value, not by bits; sub-byte types and the fields of subnormals by their smallest normal.
double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return std::ldexp(1, -1022);
    case DType::F32:
    case DType::BF16:
      return std::ldexp(1, -126);
    case DType::F16:
      return std::ldexp(1, -14);
    case DType::F8_E4M3:
      return std::ldexp(1, -6);
    case DType::F8_E5M2:
      return std::ldexp(1, -14);
    case DType::F8_E4M3FNUZ:
      return std::ldexp(1, -7);
    case DType::F8_E5M2FNUZ:
      return std::ldexp(1, -15);
    case DType::F6_E2M3:
      return 1;
    case DType::F6_E3M2:
      return 0.25;
    case DType::F4:
      return 1;
    default:
      return 0;  // integers, E8M0
  }
}

Scan by_value(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count) {
  Scan scan;
  double low = 0, high = 0;
  bool any = false;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = dtype == DType::BOOL ? std::to_integer<int>(data[i]) : element_as_f64(dtype, data, i);
    ++scan.count;
    scan.constant = scan.constant && element_bits(dtype, data, i) == element_bits(dtype, data, 0);
    if (dtype == DType::BOOL && x > 1) {
      ++scan.bad_bool;
      scan.first_bad_bool = std::min(scan.first_bad_bool, first_index + i);
    }
    if (std::isnan(x)) {
      ++scan.nan;
      scan.first_nan = std::min(scan.first_nan, first_index + i);
      continue;
    }
    scan.negative += x < 0;
    if (std::isinf(x)) {
      ++scan.inf;
      scan.first_inf = std::min(scan.first_inf, first_index + i);
      continue;
    }
    scan.zero += x == 0;
    scan.subnormal += x != 0 && std::fabs(x) < smallest_normal(dtype);
    scan.extreme += is_floating(dtype) && dtype != DType::F8_E8M0 && std::fabs(x) >= std::ldexp(1, 64);
    low = any ? std::min(low, x) : x;
    high = any ? std::max(high, x) : x;
    any = true;
  }
  if (scan.constant && count > 0) scan.first_bits = element_bits(dtype, data, 0);
  if (any) {
    // Keys are compared by the value behind them, below.
    scan.min_key = tftf::bit_cast<int64_t>(low);
    scan.max_key = tftf::bit_cast<int64_t>(high);
  }
  return scan;
}

void check_scan(DType dtype, Scan got, Scan want) {
  CHECK(got.has_range() == (want.min_key != INT64_MAX || want.max_key != INT64_MIN));
  if (got.has_range()) {
    CHECK(scan_value(dtype, got.min_key) == tftf::bit_cast<double>(want.min_key));
    CHECK(scan_value(dtype, got.max_key) == tftf::bit_cast<double>(want.max_key));
  }
  got.min_key = want.min_key;
  got.max_key = want.max_key;
  CHECK(got.count == want.count);
  CHECK(got.nan == want.nan);
  CHECK(got.inf == want.inf);
  CHECK(got.zero == want.zero);
  CHECK(got.subnormal == want.subnormal);
  CHECK(got.negative == want.negative);
  CHECK(got.extreme == want.extreme);
  CHECK(got.bad_bool == want.bad_bool);
  CHECK(got.first_nan == want.first_nan);
  CHECK(got.first_inf == want.first_inf);
  CHECK(got == want);
}

Scan scan_of(const KernelTable& table, DType dtype, const std::byte* data, uint64_t first, uint64_t count) {
  Scan scan;
  table.scan(dtype, data, first, count, scan);
  return scan;
}

std::vector<std::byte> random_bytes(size_t size, std::mt19937& random) {
  std::vector<std::byte> data(size);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

// Elements that are finite and ordinary in most dtypes: small numbers in every word, so that the fast counts
// run.
void calm(DType dtype, std::vector<std::byte>& data) {
  const size_t size = dtype_bits(dtype) / 8;
  if (size == 0) return;
  for (size_t i = size - 1; i < data.size(); i += size) data[i] &= std::byte{0xBB};
}

}  // namespace

TEST_CASE("every code of the 8- and 16-bit dtypes is classified by its value") {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.bits > 16) continue;
    const uint64_t codes = uint64_t{1} << info.bits;
    for (uint64_t code = 0; code < codes; ++code) {
      // A run of equal elements, long enough for the vectors and a rest.
      const size_t repeat = info.bits < 8 ? 8 : info.bits == 8 ? 77 : 19;
      std::vector<std::byte> data(repeat * info.bits / 8);
      if (info.bits < 8) {
        uint64_t pattern = 0;
        for (uint64_t i = 0; i < 48 / info.bits; ++i) pattern |= code << (i * info.bits);
        std::memcpy(data.data(), &pattern, data.size());
      } else {
        for (size_t i = 0; i < repeat; ++i)
          std::memcpy(data.data() + i * info.bits / 8, &code, info.bits / 8);
      }
      const Scan want = by_value(info.dtype, data.data(), 5, repeat);
      INFO(info.name << " code " << code);
      const Scan scalar = scan_of(scalar_kernels(), info.dtype, data.data(), 5, repeat);
      if (info.bits < 16 || code % 61 == 0 || (code & 0x7FFF) < 2 || (code & 0x7FFF) >= 0x7BFE)
        check_scan(info.dtype, scalar, want);
      if (scalar.has_range()) {
        if (scan_bits(info.dtype, scalar.min_key) != code) FAIL_CHECK("bits of the key");
        if (scalar.min_key != scalar.max_key) FAIL_CHECK("one value");
      }
      for (const KernelTable* table : vector_tables())
        if (scan_of(*table, info.dtype, data.data(), 5, repeat) != scalar) FAIL_CHECK(table->name);
    }
  }
}

TEST_CASE("the data pass of random runs is the same in every table and split") {
  std::mt19937 random(kSeed);
  for (const DTypeInfo& info : all_dtypes()) {
    for (int round = 0; round < 60; ++round) {
      const uint64_t unit = words(info.dtype);
      const uint64_t count = (round < 40 ? random() % 200 : random() % 40000) * unit;
      std::vector<std::byte> data = random_bytes(count * info.bits / 8, random);
      if (round % 3 != 0) calm(info.dtype, data);
      if (round % 5 == 0)
        std::fill(data.begin(), data.end(), round % 2 == 0 ? std::byte{0} : std::byte{0x3C});
      if (info.dtype == DType::BOOL && round % 2 == 0)
        for (std::byte& byte : data) byte &= std::byte{1};
      const uint64_t first = random() % 1000;
      INFO(info.name << " count " << count << " round " << round << " seed " << kSeed);
      const Scan scalar = scan_of(scalar_kernels(), info.dtype, data.data(), first, count);
      if (info.dtype != DType::C64)
        check_scan(info.dtype, scalar, by_value(info.dtype, data.data(), first, count));
      for (const KernelTable* table : available_kernels()) {
        INFO(table->name);
        Buffer moved(data.size(), random() % 64);
        if (!data.empty()) std::memcpy(moved.data(), data.data(), data.size());
        CHECK(scan_of(*table, info.dtype, moved.data(), first, count) == scalar);
        // Two runs merged in either order, and one run added to the other.
        const uint64_t cut = count == 0 ? 0 : random() % (count / unit + 1) * unit;
        const std::byte* rest = moved.data() + cut * info.bits / 8;
        const Scan a = scan_of(*table, info.dtype, moved.data(), first, cut);
        const Scan b = scan_of(*table, info.dtype, rest, first + cut, count - cut);
        Scan ab = a, ba = b, in_place = a;
        merge(ab, b);
        merge(ba, a);
        table->scan(info.dtype, rest, first + cut, count - cut, in_place);
        CHECK(ab == scalar);
        CHECK(ba == scalar);
        CHECK(in_place == scalar);
      }
    }
  }
}

TEST_CASE("one special element is found wherever it stands") {
  struct Special {
    DType dtype;
    uint64_t filler, bits;
    uint64_t Scan::*counter;
  };
  const Special specials[] = {
      {DType::BF16, 0x3F80, 0x7FC0, &Scan::nan},
      {DType::BF16, 0x3F80, 0xFF80, &Scan::inf},
      {DType::BF16, 0x3F80, 0x5F80, &Scan::extreme},
      {DType::BF16, 0x3F80, 0x8001, &Scan::subnormal},
      {DType::F16, 0x3C00, 0xFC01, &Scan::nan},
      {DType::F16, 0x3C00, 0x7C00, &Scan::inf},
      {DType::F32, 0x3F800000, 0xFF800001, &Scan::nan},
      {DType::F32, 0x3F800000, 0x7F800000, &Scan::inf},
      {DType::F32, 0x3F800000, 0xDF800000, &Scan::extreme},
      {DType::F8_E4M3, 0x38, 0xFF, &Scan::nan},
      {DType::F8_E5M2, 0x38, 0xFC, &Scan::inf},
      {DType::F8_E4M3FNUZ, 0x38, 0x80, &Scan::nan},
      {DType::F8_E5M2FNUZ, 0x38, 0x80, &Scan::nan},
      {DType::F8_E8M0, 0x7F, 0xFF, &Scan::nan},
      {DType::F64, 0x3FF0000000000000, 0x7FF0000000000001, &Scan::nan},
      {DType::F64, 0x3FF0000000000000, 0xC3F0000000000000, &Scan::extreme},
      {DType::BOOL, 1, 2, &Scan::bad_bool},
  };
  for (const Special& special : specials) {
    const size_t size = dtype_bits(special.dtype) / 8, count = 9000 / size;
    for (size_t at = 0; at < count; at += at < 80 || at + 80 > count ? 1 : 37) {
      Buffer data(count * size, at);
      for (size_t i = 0; i < count; ++i)
        std::memcpy(data.data() + i * size, i == at ? &special.bits : &special.filler, size);
      for (const KernelTable* table : available_kernels()) {
        const Scan scan = scan_of(*table, special.dtype, data.data(), 1000, count);
        const uint64_t first = special.counter == &Scan::nan        ? scan.first_nan
                               : special.counter == &Scan::inf      ? scan.first_inf
                               : special.counter == &Scan::bad_bool ? scan.first_bad_bool
                                                                    : 1000 + at;
        if (scan.*special.counter != 1 || first != 1000 + at || scan.constant || scan.count != count)
          FAIL_CHECK(table->name << " " << dtype_name(special.dtype) << " at " << at);
      }
    }
  }
}

TEST_CASE("a complex element counts once if either part qualifies") {
  const float inf = INFINITY, nan = NAN;
  const float parts[] = {nan, nan, 1, nan, inf, nan, 0, 0, 0, -0.0f, 1e-40f, 1e-41f, 3e19f, -3e19f, 5, -7};
  for (const KernelTable* table : available_kernels()) {
    const Scan scan = scan_of(*table, DType::C64, reinterpret_cast<const std::byte*>(parts), 0, 8);
    CHECK(scan.count == 8);
    CHECK(scan.nan == 3);
    CHECK(scan.first_nan == 0);
    CHECK(scan.inf == 1);
    CHECK(scan.first_inf == 2);
    CHECK(scan.zero == 2);
    CHECK(scan.subnormal == 1);
    CHECK(scan.extreme == 1);
    CHECK(scan.negative == 0);
    CHECK_FALSE(scan.constant);
    CHECK(scan_value(DType::C64, scan.min_key) == static_cast<double>(-3e19f));
    CHECK(scan_max_magnitude(DType::C64, scan) == static_cast<double>(3e19f));
  }
}

TEST_CASE("constant and zero runs, and integers at the ends of their range") {
  for (const KernelTable* table : available_kernels()) {
    std::vector<std::byte> zeros(10000);
    for (const DTypeInfo& info : all_dtypes()) {
      const uint64_t count = 9600 * 8 / info.bits;
      const Scan scan = scan_of(*table, info.dtype, zeros.data(), 0, count);
      CHECK(scan.constant);
      CHECK(scan.all_zero_bits());
      CHECK(scan.zero == (info.dtype == DType::F8_E8M0 ? 0 : count));
    }
    // Differing zeros: all zero, not constant.
    std::vector<uint16_t> signs(1000, 0x8000);
    signs[999] = 0;
    const Scan scan = scan_of(*table, DType::BF16, reinterpret_cast<const std::byte*>(signs.data()), 0, 1000);
    CHECK(scan.zero == 1000);
    CHECK_FALSE(scan.constant);
    CHECK_FALSE(scan.all_zero_bits());
    CHECK(scan.negative == 0);
    CHECK(scan_bits(DType::BF16, scan.min_key) == 0x8000);
    CHECK(scan_bits(DType::BF16, scan.max_key) == 0);
    std::vector<uint64_t> big(100, 7);
    big[50] = UINT64_MAX;
    big[51] = uint64_t{1} << 63;
    const auto* data = reinterpret_cast<const std::byte*>(big.data());
    const Scan without = scan_of(*table, DType::U64, data, 0, 100),
               with = scan_of(*table, DType::I64, data, 0, 100);
    CHECK(scan_bits(DType::U64, without.max_key) == UINT64_MAX);
    CHECK(scan_bits(DType::U64, without.min_key) == 7);
    CHECK(scan_value(DType::I64, with.min_key) == -std::ldexp(1, 63));
    CHECK(scan_value(DType::I64, with.max_key) == 7);
    CHECK(with.negative == 2);
  }
  Scan empty;
  CHECK_FALSE(empty.has_range());
  CHECK(scan_max_magnitude(DType::F32, empty) == 0);
}
