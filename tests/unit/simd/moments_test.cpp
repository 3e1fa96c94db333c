// Sums in fixed order: bits independent of table and split, values close to sums made in long double.
#include "kernel_tables.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

#include <cmath>

using namespace tftf;
using namespace tftf::test;

namespace {

bool same(const Moments& a, const Moments& b) {
  return std::memcmp(a.sum, b.sum, sizeof(a.sum)) == 0 &&
         std::memcmp(a.square, b.square, sizeof(a.square)) == 0 && std::memcmp(&a.pivot, &b.pivot, 8) == 0 &&
         a.finite == b.finite;
}

// The rule of the header, element by element.
Moments by_rule(DType dtype, const std::byte* data, uint64_t count) {
  Moments m;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = element_as_f64(dtype, data, i);
    if (!std::isfinite(x)) continue;
    if (m.finite++ == 0) m.pivot = x;
    const double d = x - m.pivot;
    m.sum[i % 16] += d;
    m.square[i % 16] += d * d;
  }
  return m;
}

}  // namespace

TEST_CASE("moments have the same bits in every table and split, for every dtype") {
  std::mt19937 random(kSeed);
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype == DType::C64) continue;
    for (int round = 0; round < 12; ++round) {
      const uint64_t count =
          (round < 6 ? random() % 100 : random() % 5000) * 16 + (info.bits < 8 ? 0 : random() % 16);
      std::vector<std::byte> data(count * info.bits / 8);
      for (std::byte& byte : data) byte = static_cast<std::byte>(random());
      // Ordinary numbers in two rounds of three, so that the fast loops run.
      const size_t size = info.bits / 8;
      if (round % 3 != 0 && size > 0)
        for (size_t i = size - 1; i < data.size(); i += size) data[i] &= std::byte{0xBB};
      const Moments want = by_rule(info.dtype, data.data(), count);
      for (const KernelTable* table : available_kernels()) {
        INFO(table->name << " " << info.name << " count " << count << " seed " << kSeed);
        Moments whole, split;
        table->moments(info.dtype, data.data(), 0, count, whole);
        CHECK(same(whole, want));
        uint64_t cut = count == 0 ? 0 : random() % count;
        cut -= cut % (info.bits < 8 ? 4 : 1);
        table->moments(info.dtype, data.data(), 0, cut, split);
        table->moments(info.dtype, data.data() + cut * info.bits / 8, cut, count - cut, split);
        CHECK(same(split, want));
      }
    }
  }
}

TEST_CASE("mean and spread of blocks") {
  std::mt19937 random(kSeed);
  std::vector<float> values(3000);
  long double sum = 0;
  for (float& x : values) {
    x = 1000.0f + static_cast<float>(random() % 10000) / 1000.0f;
    sum += static_cast<long double>(x);
  }
  const long double mean = sum / 3000;
  long double spread = 0;
  for (float x : values)
    spread += (static_cast<long double>(x) - mean) * (static_cast<long double>(x) - mean);
  MeanSpread total;
  for (int block = 0; block < 3; ++block) {
    Moments m;
    best_kernels().moments(DType::F32, reinterpret_cast<const std::byte*>(values.data() + 1000 * block), 0,
                           1000, m);
    append(total, block_result(m));
  }
  CHECK(total.count == 3000);
  CHECK(total.mean == Approx(static_cast<double>(mean)).epsilon(1e-14));
  CHECK(total.spread == Approx(static_cast<double>(spread)).epsilon(1e-12));

  // A constant tensor has no spread at all.
  std::vector<float> constant(5000, 0.1f);
  MeanSpread flat;
  for (int block = 0; block < 5; ++block) {
    Moments m;
    best_kernels().moments(DType::F32, reinterpret_cast<const std::byte*>(constant.data()), 0, 1000, m);
    append(flat, block_result(m));
  }
  CHECK(flat.mean == static_cast<double>(0.1f));
  CHECK(flat.spread == 0);

  // Nothing finite, and nothing at all.
  const std::vector<float> none(100, NAN);
  Moments m;
  best_kernels().moments(DType::F32, reinterpret_cast<const std::byte*>(none.data()), 0, 100, m);
  CHECK(m.finite == 0);
  CHECK(block_result(m).count == 0);
  append(flat, block_result(m));
  CHECK(flat.count == 5000);
}

TEST_CASE("sums of squares have the same bits in every table") {
  std::mt19937 random(kSeed);
  for (size_t count = 0; count < 200; ++count) {
    std::vector<float> x(count);
    for (float& value : x) value = static_cast<float>(random() % 100000) / 7.0f - 5000.0f;
    double lanes[16] = {};
    for (size_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(x[i]);
      lanes[i % 16] += value * value;
    }
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    for (const KernelTable* table : available_kernels()) {
      INFO(table->name << " count " << count);
      CHECK(table->sum_squares_f32(x.data(), count) == lanes[0]);
    }
  }
}
