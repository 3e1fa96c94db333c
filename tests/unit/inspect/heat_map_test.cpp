// Heat maps against plain loops.
#include "tftf/inspect/heat_map.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tftf/base/json_text.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"
#include "value_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct Pictured {
  MemoryModel model;
  Checkpoint checkpoint;

  explicit Pictured(const std::vector<TestTensor>& tensors, const std::string& config = {}) {
    model.files["model.safetensors"] = model_file(tensors);
    if (!config.empty()) model.files["config.json"] = config;
    auto read = read_from_memory(model, model.folder(), {});
    REQUIRE(read.ok());
    checkpoint = *std::move(read);
  }
  Result<HeatCells> map(HeatMapRequest request, ValueHostOptions options = {},
                        std::string* json = nullptr) const {
    HeatMapPass pass(checkpoint, request);
    if (auto done = run_in_memory(pass, {&model}, {&checkpoint}, options); !done)
      return std::move(done).error();
    if (json != nullptr) *json = pass.to_json();
    return pass.map();
  }
};

// Cell means with long doubles.
void check_against_loops(const HeatCells& map, DType dtype, const std::string& bytes, uint64_t columns) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  REQUIRE(map.mean.size() == map.height * map.width);
  for (uint64_t i = 0; i < map.height; ++i)
    for (uint64_t j = 0; j < map.width; ++j) {
      long double sum = 0;
      uint64_t finite = 0, count = 0;
      double low = HUGE_VAL, high = -HUGE_VAL;
      for (uint64_t r = map.row_begin + i * map.cell_rows;
           r < std::min(map.row_end, map.row_begin + (i + 1) * map.cell_rows); ++r)
        for (uint64_t c = map.column_begin + j * map.cell_columns;
             c < std::min(map.column_end, map.column_begin + (j + 1) * map.cell_columns); ++c) {
          const double x = element_as_f64(dtype, data, r * columns + c);
          ++count;
          if (!std::isfinite(x)) continue;
          ++finite;
          sum += static_cast<long double>(x);
          low = std::min(low, x);
          high = std::max(high, x);
        }
      const size_t cell = static_cast<size_t>(i * map.width + j);
      REQUIRE(count > 0);
      if (finite == 0) {
        REQUIRE(std::isnan(map.mean[cell]));
        REQUIRE(map.non_finite[cell] == 1);
        continue;
      }
      const double mean = static_cast<double>(sum / finite);
      REQUIRE(std::fabs(map.mean[cell] - mean) <= 1e-9 * std::max({std::fabs(low), std::fabs(high)}));
      REQUIRE(map.low[cell] == low);
      REQUIRE(map.high[cell] == high);
      REQUIRE(map.non_finite[cell] == (finite < count ? 1 : 0));
    }
}

const TensorRef kFirst{0, 0};

}  // namespace

TEST_CASE("cells hold the means of their values") {
  struct Form {
    Shape shape;
    uint32_t height, width;
  };
  for (const Form& form : {Form{{}, 4, 4}, Form{{100}, 8, 7}, Form{{7, 5}, 64, 64}, Form{{100, 33}, 9, 10},
                           Form{{3, 40, 9}, 50, 4}, Form{{2, 20000}, 2, 3}, Form{{5000, 3}, 64, 64},
                           Form{{2, 1050000}, 2, 100}}) {
    INFO(shape_text(form.shape));
    const uint64_t count = *element_count(form.shape);
    std::string bytes = random_bytes(static_cast<size_t>(2 * count), 3);
    const Pictured model({{"t", DType::F16, form.shape, bytes}});
    HeatMapRequest request;
    request.tensor = kFirst;
    request.height = form.height;
    request.width = form.width;
    const auto map = model.map(request);
    REQUIRE(map.ok());
    const uint64_t columns = form.shape.empty() ? 1 : form.shape.back();
    CHECK(map->height <= form.height);
    CHECK(map->width <= form.width);
    CHECK_FALSE(map->sampled);
    check_against_loops(*map, DType::F16, bytes, columns);
    // Order and kernels leave no trace.
    std::string one, other;
    REQUIRE(model.map(request, {&scalar_kernels(), 0}, &one).ok());
    REQUIRE(model.map(request, {nullptr, 9}, &other).ok());
    CHECK(one == other);
    const OrderedJson json = OrderedJson::parse(one);
    CHECK(json_text(json) == one);
    CHECK(json["mean"].size() == map->mean.size());
  }
}

TEST_CASE("a part of a tensor, of any dtype, down to single values") {
  for (const DType dtype :
       {DType::F4, DType::F6_E2M3, DType::F6_E3M2, DType::BF16, DType::I64, DType::BOOL}) {
    INFO(dtype_name(dtype));
    const Shape shape = {30, 44};
    const std::string bytes = random_bytes(static_cast<size_t>(*byte_count(30 * 44, dtype)), 5);
    const Pictured model({{"t", dtype, shape, bytes}});
    std::mt19937 random(7);
    for (int i = 0; i < 30; ++i) {
      HeatMapRequest request;
      request.tensor = kFirst;
      request.row_begin = random() % 30;
      request.row_end = request.row_begin + 1 + random() % (30 - request.row_begin);
      request.column_begin = random() % 44;
      request.column_end = request.column_begin + 1 + random() % (44 - request.column_begin);
      request.height = static_cast<uint32_t>(1 + random() % 40);
      request.width = static_cast<uint32_t>(1 + random() % 50);
      const auto map = model.map(request);
      REQUIRE(map.ok());
      check_against_loops(*map, dtype, bytes, 44);
    }
  }
}

TEST_CASE("a narrow part of long rows reads its columns alone") {
  const uint64_t columns = 300000;
  const std::string bytes = random_bytes(static_cast<size_t>(4 * columns * 2), 1);
  const Pictured model({{"t", DType::BF16, {4, columns}, bytes}});
  HeatMapRequest request;
  request.tensor = kFirst;
  request.column_begin = 1000;
  request.column_end = 1064;
  HeatMapPass pass(model.checkpoint, request);
  REQUIRE(run_in_memory(pass, {&model.model}, {&model.checkpoint}).ok());
  CHECK(pass.bytes() == 4 * 64 * 2);
  check_against_loops(pass.map(), DType::BF16, bytes, columns);
}

TEST_CASE("beyond the bytes that may be read, rows are left out evenly") {
  std::vector<float> values;
  const uint64_t rows = 100000, columns = 16;
  for (uint64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(i / columns));
  const Pictured model({{"t", DType::F32, {rows, columns}, f32_bytes(values)}});
  HeatMapRequest request;
  request.tensor = kFirst;
  request.height = 10;
  request.width = 4;
  request.max_bytes = 1 << 20;
  HeatMapPass pass(model.checkpoint, request);
  REQUIRE(run_in_memory(pass, {&model.model}, {&model.checkpoint}, {nullptr, 3}).ok());
  CHECK(pass.map().sampled);
  CHECK(pass.bytes() <= request.max_bytes);
  CHECK(pass.bytes() > 0);
  for (uint64_t i = 0; i < 10; ++i) {
    const size_t cell = static_cast<size_t>(4 * i);
    CHECK(pass.map().low[cell] >= static_cast<double>(10000 * i));
    CHECK(pass.map().high[cell] < static_cast<double>(10000 * (i + 1)));
  }
  request.max_bytes = rows * columns * 4;
  REQUIRE(model.map(request).ok());
  CHECK_FALSE(model.map(request)->sampled);
  // Never nothing.
  request.max_bytes = 0;
  const auto least = model.map(request);
  REQUIRE(least.ok());
  CHECK(least->sampled);
  for (const double mean : least->mean) CHECK_FALSE(std::isnan(mean));
}

TEST_CASE("a quantised weight is pictured as it is meant") {
  const std::string codes = random_bytes(20 * 10, 2);
  const Pictured model({{"m.weight", DType::F8_E4M3, {20, 10}, codes},
                        {"m.weight_scale_inv", DType::F32, {3, 3}, f32_bytes({1, 2, 3, 4, 5, 6, 7, 8, 9})}},
                       R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[8,4]}})");
  std::vector<float> plain;
  for (size_t i = 0; i < 200; ++i) {
    const float scale = static_cast<float>(i / 10 / 8 * 3 + i % 10 / 4 + 1);
    plain.push_back(static_cast<float>(
                        element_as_f64(DType::F8_E4M3, reinterpret_cast<const std::byte*>(codes.data()), i)) *
                    scale);
  }
  HeatMapRequest request;
  request.tensor = kFirst;
  request.logical = true;
  request.height = 5;
  request.width = 3;
  request.row_begin = 3;
  const auto map = model.map(request);
  REQUIRE(map.ok());
  check_against_loops(*map, DType::F32, f32_bytes(plain), 10);
  request.tensor = {0, 1};
  CHECK(model.map(request).error().code == ErrorCode::kRefusedUnsupported);
}

TEST_CASE("parts that are not there, complex numbers and empty tensors") {
  const Pictured model({{"c", DType::C64, {1}, std::string(8, '\0')},
                        {"e", DType::F32, {3, 0}, ""},
                        {"f", DType::F32, {2, 2}, f32_bytes({1, 2, 3, 4})}});
  HeatMapRequest request;
  request.tensor = {0, 0};
  CHECK(model.map(request).error().code == ErrorCode::kRefusedUnsupported);
  request.tensor = {0, 1};
  const auto empty = model.map(request);
  REQUIRE(empty.ok());
  CHECK(empty->mean.empty());
  request.tensor = {0, 2};
  CHECK(model.map(request).ok());
  request.row_begin = 2;
  CHECK(model.map(request).error().code == ErrorCode::kUsage);
  request.row_begin = 0;
  request.column_begin = request.column_end = 1;
  CHECK(model.map(request).error().code == ErrorCode::kUsage);
  request = {};
  request.tensor = {0, 2};
  request.width = 0;
  CHECK(model.map(request).error().code == ErrorCode::kUsage);
  request.width = HeatMapRequest::kMaxCells + 1;
  CHECK(model.map(request).error().code == ErrorCode::kUsage);
}

TEST_CASE("a heat map in characters") {
  const Pictured model({{"t", DType::F32, {2, 3}, f32_bytes({0, 1, 2, 3, std::nanf(""), 9})}});
  HeatMapRequest request;
  request.tensor = kFirst;
  const auto map = model.map(request);
  REQUIRE(map.ok());
  CHECK(heat_map_text(*map) == " .:\n-!@\n");
}
