#include "tftf/inspect/value_view.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::vector<float> view_samples(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) / 1e6f;
  return values;
}

OrderedJson statistics_in_runs(const std::vector<float>& values, size_t run, uint32_t bins) {
  RunStatistics statistics(best_kernels(), DType::F32);
  for (size_t at = 0; at < values.size(); at += run)
    statistics.add(bytes_of(values) + 4 * at, std::min(run, values.size() - at));
  statistics.begin_histogram(bins);
  for (size_t at = 0; at < values.size(); at += run)
    statistics.add_histogram(bytes_of(values) + 4 * at, std::min(run, values.size() - at));
  return statistics.to_json();
}

TEST_CASE("decoded values are those of single elements, for every dtype that can be viewed") {
  std::mt19937 random(7);
  std::vector<std::byte> data(64);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  int viewed = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    if (!can_view(info.dtype)) {
      CHECK(info.dtype == DType::C64);
      continue;
    }
    ++viewed;
    std::vector<double> values(8);
    decode_values(best_kernels(), info.dtype, data.data(), 8, values.data());
    for (uint64_t i = 0; i < 8; ++i) {
      INFO(info.name << " " << i);
      double expected = element_as_f64(info.dtype, data.data(), i);
      if (info.dtype == DType::BOOL && expected != 0) expected = 1;
      if (std::isnan(expected))
        CHECK(std::isnan(values[i]));
      else
        CHECK(values[i] == expected);
    }
  }
  CHECK(viewed == static_cast<int>(all_dtypes().size()) - 1);
}

TEST_CASE("statistics do not depend on the runs they come in") {
  std::vector<float> values = view_samples((1 << 20) + 12345, 1);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[4] = -std::numeric_limits<float>::infinity();
  const OrderedJson whole = statistics_in_runs(values, values.size(), 64);
  CHECK(statistics_in_runs(values, 4096, 64) == whole);
  CHECK(statistics_in_runs(values, 777 * 8, 64) == whole);
  CHECK(whole["count"] == values.size());
  CHECK(whole["nan"] == 1);
  CHECK(whole["infinite"] == 1);
  uint64_t counted = 0;
  for (const OrderedJson& bin : whole["histogram"]["counts"]) counted += bin.get<uint64_t>();
  CHECK(counted == values.size() - 2);
}

TEST_CASE("mean, deviation and histogram of a few values") {
  const OrderedJson json = statistics_in_runs({0, 1, 2, 3, 4, 5, 6, 7}, 8, 4);
  CHECK(json["mean"] == 3.5);
  CHECK(json["std"].get<double>() == Approx(std::sqrt(5.25)));
  CHECK(json["min"] == 0);
  CHECK(json["max"] == 7);
  CHECK(json["histogram"]["counts"] == OrderedJson({2, 2, 2, 2}));
  CHECK(json["zero"] == 1);
}

TEST_CASE("a histogram of equal values, of the widest range, and of none") {
  CHECK(statistics_in_runs({2, 2, 2}, 3, 4)["histogram"]["counts"] == OrderedJson({3, 0, 0, 0}));
  const std::vector<double> wide = {-std::numeric_limits<double>::max(), 0,
                                    std::numeric_limits<double>::max()};
  RunStatistics statistics(best_kernels(), DType::F64);
  const auto* data = reinterpret_cast<const std::byte*>(wide.data());
  statistics.add(data, wide.size());
  statistics.begin_histogram(3);
  statistics.add_histogram(data, wide.size());
  CHECK(statistics.to_json()["histogram"]["counts"] == OrderedJson({1, 1, 1}));
  const OrderedJson none = statistics_in_runs({std::nanf(""), std::nanf("")}, 2, 4);
  CHECK(none["histogram"].is_null());
  CHECK(none["mean"].is_null());
  CHECK(none["min"].is_null());
  CHECK(none["nan"] == 2);
}

TEST_CASE("cells of a heat map keep mean, least, largest and what is not finite") {
  const float nan = std::nanf("");
  // Two rows of five columns, cells of two columns.
  const std::vector<float> first = {1, 3, nan, 5, nan};
  const std::vector<float> second = {-1, 1, 2, 4, nan};
  HeatMap map(best_kernels(), DType::F32, 5, 2, 1);
  REQUIRE(map.width() == 3);
  map.add(0, 0, bytes_of(first), 5);
  map.add(0, 0, bytes_of(second), 5);
  map.finish();
  CHECK(map.mean()[0] == 1);
  CHECK(map.low()[0] == -1);
  CHECK(map.high()[0] == 3);
  CHECK(map.mean()[1] == Approx(11.0 / 3));
  CHECK(map.non_finite() == std::vector<uint8_t>{0, 1, 1});
  CHECK(std::isnan(map.mean()[2]));
  CHECK(std::isnan(map.low()[2]));
}

TEST_CASE("what lies outside a heat map is left out") {
  const std::vector<float> values(20, 1);
  HeatMap map(best_kernels(), DType::F32, 4, 2, 2);
  map.add(1, 0, bytes_of(values), 20);
  map.add(9, 0, bytes_of(values), 4);
  map.finish();
  CHECK(std::isnan(map.mean()[0]));
  CHECK(map.mean()[2] == 1);
  CHECK(map.mean().size() == 4);
}

}  // namespace
}  // namespace tftf
