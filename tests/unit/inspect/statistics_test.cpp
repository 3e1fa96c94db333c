// Statistics against plain loops over the same bytes.
#include "tftf/inspect/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "inspect/text_table.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"
#include "value_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

MemoryModel one_file(const std::vector<TestTensor>& tensors, const std::string& config = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  if (!config.empty()) model.files["config.json"] = config;
  return model;
}

Checkpoint open(const MemoryModel& model, ReadMode mode = ReadMode::kTransform) {
  ReaderOptions options;
  options.mode = mode;
  auto checkpoint = read_from_memory(model, model.folder(), options);
  REQUIRE(checkpoint.ok());
  return *std::move(checkpoint);
}

OrderedJson document(const MemoryModel& model, StatisticsRequest request, ValueHostOptions options = {}) {
  const Checkpoint checkpoint = open(model);
  Statistics statistics(checkpoint, std::move(request));
  const auto done = run_in_memory(statistics, {&model}, {&checkpoint}, options);
  REQUIRE(done.ok());
  const std::string text = statistics.to_json();
  const OrderedJson json = OrderedJson::parse(text);
  CHECK(json_text(json) == text);
  return json;
}

// What two passes over the doubles give.
struct Plain {
  uint64_t nan = 0, infinite = 0, zero = 0, negative = 0;
  double min = HUGE_VAL, max = -HUGE_VAL, mean = 0, deviation = 0;
};

Plain look(DType dtype, const std::string& bytes, uint64_t count) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  Plain out;
  long double sum = 0, squares = 0;
  uint64_t finite = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = element_as_f64(dtype, data, i);
    out.nan += std::isnan(x) ? 1 : 0;
    out.infinite += std::isinf(x) ? 1 : 0;
    out.zero += x == 0 ? 1 : 0;
    out.negative += x < 0 ? 1 : 0;
    if (!std::isfinite(x)) continue;
    ++finite;
    sum += static_cast<long double>(x);
    out.min = std::min(out.min, x);
    out.max = std::max(out.max, x);
  }
  if (finite == 0) return out;
  const long double mean = sum / finite;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = element_as_f64(dtype, data, i);
    if (std::isfinite(x)) squares += (x - mean) * (x - mean);
  }
  out.mean = static_cast<double>(mean);
  out.deviation = std::sqrt(static_cast<double>(squares / finite));
  return out;
}

bool close(double a, double b) {
  return a == b || std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b));
}

std::string ramp(uint64_t count, uint32_t seed) {
  std::vector<float> values;
  std::mt19937 random(seed);
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(static_cast<int32_t>(random() % 2001) - 1000) / 64.0f);
  return f32_bytes(values);
}

const char* const kFp8Config = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[8,4]}})";

}  // namespace

TEST_CASE("statistics of every dtype are those of its values") {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype == DType::C64) continue;
    INFO(info.name);
    constexpr uint64_t kCount = 4 * 24 * 8;
    std::string bytes = random_bytes(kCount * info.bits / 8, info.rank + 1);
    if (info.dtype == DType::BOOL)
      for (char& c : bytes) c = static_cast<char>(c & 1);
    const Plain want = look(info.dtype, bytes, kCount);
    const MemoryModel model = one_file({{"t", info.dtype, {4, 24, 8}, bytes}});
    const OrderedJson got = document(model, {})["tensors"][0];
    CHECK(got["count"] == kCount);
    CHECK(got["nan"] == want.nan);
    CHECK(got["infinite"] == want.infinite);
    CHECK(got["zero"] == want.zero);
    CHECK(got["negative"] == want.negative);
    if (info.bits < 64 || info.dtype == DType::F64) {
      CHECK(got["min"].get<double>() == want.min);
      CHECK(got["max"].get<double>() == want.max);
    }
    // Squares of the largest doubles are infinite here, and are not with a pivot.
    if (info.dtype != DType::F64) {
      CHECK(close(got["mean"].get<double>(), want.mean));
      CHECK(close(got["std"].get<double>(), want.deviation));
    }
    CHECK(got["histogram"].is_null());
    CHECK(got["logical"].is_null());
  }
}

TEST_CASE("known values give known statistics") {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  const std::string complex = f32_bytes({3, -4, nan, 0});
  const std::string wide("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x00\x00\x00\x00\x00\x00\x00\x80", 16);
  const MemoryModel model =
      one_file({{"complex", DType::C64, {2}, complex},
                {"empty", DType::F32, {0, 3}, ""},
                {"f", DType::F32, {2, 4}, f32_bytes({1, 2, 3, 4, nan, inf, -inf, 1e-40f})},
                {"nothing", DType::F32, {2}, f32_bytes({nan, inf})},
                {"scalar", DType::F32, {}, f32_bytes({7})},
                {"wide", DType::I64, {2}, wide}});
  StatisticsRequest request;
  request.bins = 3;
  const OrderedJson tensors = document(model, request)["tensors"];
  REQUIRE(tensors.size() == 6);
  CHECK(tensors[0]["nan"] == 1);
  CHECK(tensors[0]["min"] == -4);
  CHECK(tensors[0]["mean"].is_null());
  CHECK(tensors[0]["histogram"].is_null());
  CHECK(tensors[1]["count"] == 0);
  CHECK(tensors[1]["min"].is_null());
  CHECK(tensors[1]["std"].is_null());
  const OrderedJson& f = tensors[2];
  CHECK(f["first_nan"] == 4);
  CHECK(f["first_infinite"] == 5);
  CHECK(f["subnormal"] == 1);
  CHECK(f["negative"] == 1);
  CHECK(f["mean"] == 2);
  CHECK(f["std"].get<double>() == Approx(std::sqrt(2.0)));
  CHECK(f["histogram"]["counts"] == OrderedJson({2, 1, 2}));  // 1e-40 and 1, 2, 3 and 4
  CHECK(tensors[3]["min"].is_null());
  CHECK(tensors[3]["mean"].is_null());
  CHECK(tensors[3]["histogram"].is_null());
  CHECK(tensors[4]["std"] == 0);
  CHECK(tensors[4]["constant"] == true);
  CHECK(tensors[4]["histogram"]["counts"] == OrderedJson({1}));
  CHECK(tensors[5]["max"] == "9223372036854775807");
  CHECK(tensors[5]["min"] == "-9223372036854775808");
}

TEST_CASE("blocks, their order and the kernels leave no trace") {
  const uint64_t count = 2 * kMomentBlock + 12345;
  const std::string bytes = ramp(count, 3);
  const MemoryModel model =
      one_file({{"big", DType::F32, {count}, bytes}, {"b", DType::BF16, {7, 3}, random_bytes(42, 1)}});
  StatisticsRequest request;
  request.bins = 50;
  const std::string first = json_text(document(model, request));
  for (uint32_t seed = 1; seed < 4; ++seed)
    CHECK(json_text(document(model, request, {nullptr, seed})) == first);
  for (const KernelTable* kernels : available_kernels()) {
    INFO(kernels->name);
    CHECK(json_text(document(model, request, {kernels, 5})) == first);
  }
  const Plain want = look(DType::F32, bytes, count);
  const OrderedJson got = OrderedJson::parse(first)["tensors"][1];
  CHECK(close(got["mean"].get<double>(), want.mean));
  CHECK(close(got["std"].get<double>(), want.deviation));
  uint64_t sum = 0;
  for (const auto& bin : got["histogram"]["counts"]) sum += bin.get<uint64_t>();
  CHECK(sum == count);
}

TEST_CASE("a histogram counts every finite value once") {
  std::vector<float> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(static_cast<float>(i));
  const std::string wide = f32_bytes({-3.0e38f, 3.0e38f, 0, std::nanf("")});
  std::string widest(24, '\0');
  const double most = 1.7e308;
  std::memcpy(widest.data(), &most, 8);
  const double least = -most;
  std::memcpy(widest.data() + 8, &least, 8);
  const MemoryModel model = one_file({{"a", DType::F32, {1001}, f32_bytes(values)},
                                      {"wide", DType::F32, {4}, wide},
                                      {"widest", DType::F64, {3}, widest}});
  StatisticsRequest request;
  request.bins = 10;
  const OrderedJson tensors = document(model, request)["tensors"];
  CHECK(tensors[0]["histogram"]["counts"] == OrderedJson({100, 100, 100, 100, 100, 100, 100, 100, 100, 101}));
  CHECK(tensors[0]["histogram"]["low"] == 0);
  CHECK(tensors[0]["histogram"]["high"] == 1000);
  CHECK(tensors[1]["histogram"]["counts"] == OrderedJson({1, 0, 0, 0, 0, 1, 0, 0, 0, 1}));
  CHECK(tensors[2]["histogram"]["counts"] == OrderedJson({1, 0, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST_CASE("logical statistics of FP8 blocks are those of the dequantised weight") {
  struct Form {
    Shape weight, grid;
    DType scale;
    const char* torch;
  };
  // Edge blocks, stacks whose matrices end inside a block, grids larger than needed, a row longer than a piece.
  for (const Form& form :
       {Form{{20, 10}, {3, 3}, DType::F32, "float32"}, Form{{3, 12, 6}, {3, 2, 2}, DType::F32, "float32"},
        Form{{2, 16, 8}, {2, 2, 2}, DType::BF16, "bfloat16"},
        Form{{520, 2050}, {65, 513}, DType::F16, "float16"},
        Form{{1, 1100000}, {1, 275000}, DType::F32, "float32"}}) {
    INFO(shape_text(form.weight));
    std::string codes = random_bytes(static_cast<size_t>(*element_count(form.weight)), 11);
    std::string scales;
    std::mt19937 random(5);
    for (uint64_t i = 0; i < *element_count(form.grid); ++i) {
      const float scale = static_cast<float>(random() % 1000 + 1) / 512.0f;
      std::byte buffer[4];
      store_le(buffer, scale);
      if (form.scale == DType::BF16) store_le(buffer, bf16_from_f32(scale));
      if (form.scale == DType::F16) store_le(buffer, f16_from_f32(scale));
      scales.append(reinterpret_cast<const char*>(buffer), dtype_bits(form.scale) / 8);
    }
    const MemoryModel source = one_file({{"m.weight", DType::F8_E4M3, form.weight, codes},
                                         {"m.weight_scale_inv", form.scale, form.grid, scales},
                                         {"norm", DType::F32, {4}, f32_bytes({1, 2, 3, 4})}},
                                        kFp8Config);
    auto plain = transform_in_memory(source, {{"dequant-fp8", {{"dtype", {form.torch}}}}});
    REQUIRE(plain.ok());
    MemoryModel result;
    for (const auto& [name, text] : plain->files)
      if (name.find(".safetensors") != std::string::npos && name.find(".json") == std::string::npos)
        result.files["model.safetensors"] = text;
    StatisticsRequest request;
    request.bins = 7;
    const OrderedJson want = document(result, request)["tensors"];
    request.logical = true;
    const OrderedJson got = document(source, request, {nullptr, 2})["tensors"];
    REQUIRE(got.size() == 2);
    REQUIRE(want.size() == 2);
    CHECK(got[0]["layout"] == "fp8-block");
    CHECK(got[0]["logical"]["dtype"] == want[0]["dtype"]);
    for (const char* key : {"count", "nan", "infinite", "zero", "subnormal", "negative", "first_nan", "min",
                            "max", "mean", "std", "constant", "histogram"}) {
      INFO(key);
      CHECK(got[0][key] == want[0][key]);
    }
    CHECK(got[1] == want[1]);
    // As stored the scales are tensors, too.
    request.logical = false;
    const OrderedJson stored = document(source, request)["tensors"];
    REQUIRE(stored.size() == 3);
    CHECK(stored[0]["layout"].is_null());
    CHECK(stored[0]["max"] == look(DType::F8_E4M3, codes, codes.size()).max);
  }
}

TEST_CASE("what cannot be dequantised is looked at as stored, with a note") {
  const std::string inverse =
      R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[8,4],"weight_scale_semantics":"inverse"}})";
  const std::vector<TestTensor> tensors = {{"m.weight", DType::F8_E4M3, {8, 4}, random_bytes(32, 1)},
                                           {"m.weight_scale_inv", DType::F32, {1, 1}, f32_bytes({2})}};
  StatisticsRequest request;
  request.logical = true;
  const OrderedJson json = document(one_file(tensors, inverse), request);
  CHECK(json["tensors"].size() == 2);
  CHECK(json["tensors"][0]["layout"].is_null());
  REQUIRE(json["notes"].size() == 1);
  CHECK(json["notes"][0].get<std::string>().find("fp8-block: the values of 1 module") == 0);
  CHECK(document(one_file(tensors, kFp8Config), request)["notes"].empty());
}

TEST_CASE("names, globs and their faults") {
  const MemoryModel model =
      one_file({{"a.weight", DType::F32, {1}, f32_bytes({1})}, {"b[0]", DType::F32, {1}, f32_bytes({2})}});
  const auto names = [&](StatisticsRequest request) {
    std::string out;
    const OrderedJson json = document(model, std::move(request));
    for (const OrderedJson& tensor : json["tensors"]) out += tensor["name"].get<std::string>() + " ";
    return out;
  };
  CHECK(names({}) == "a.weight b[0] ");
  StatisticsRequest request;
  request.include = {"*.weight"};
  CHECK(names(request) == "a.weight ");
  request = {};
  request.exclude = {"a*"};
  CHECK(names(request) == "b[0] ");
  request = {};
  request.names = {"b[0]"};
  CHECK(names(request) == "b[0] ");
  const Checkpoint checkpoint = open(model);
  const auto fault = [&](StatisticsRequest wrong) {
    Statistics statistics(checkpoint, std::move(wrong));
    const auto done = run_in_memory(statistics, {&model}, {&checkpoint});
    REQUIRE_FALSE(done.ok());
    return done.error().code;
  };
  request.names = {"c"};
  CHECK(fault(request) == ErrorCode::kRefusedMissing);
  request = {};
  request.bins = StatisticsRequest::kMaxBins + 1;
  CHECK(fault(request) == ErrorCode::kUsage);
}

TEST_CASE("tensors of files that are not sound are left out") {
  MemoryModel model = one_file({{"a", DType::F32, {1}, f32_bytes({1})}});
  model.files["broken.safetensors"] = model_file({{"b", DType::F32, {2}, f32_bytes({1, 2})}});
  model.files["broken.safetensors"].pop_back();
  const Checkpoint checkpoint = open(model, ReadMode::kInspect);
  Statistics statistics(checkpoint, {});
  REQUIRE(run_in_memory(statistics, {&model}, {&checkpoint}).ok());
  REQUIRE(statistics.report().tensors.size() == 1);
  CHECK(statistics.report().tensors[0].values.name() == "a");
  CHECK(statistics.report().notes.size() == 1);
}

TEST_CASE("statistics for people") {
  const MemoryModel model = one_file({{"a", DType::F32, {2}, f32_bytes({-0.5, 0.25})},
                                      {"i", DType::I32, {1}, std::string("\xFE\xFF\xFF\xFF", 4)}});
  const Checkpoint checkpoint = open(model);
  StatisticsRequest request;
  request.bins = 2;
  Statistics statistics(checkpoint, request);
  REQUIRE(run_in_memory(statistics, {&model}, {&checkpoint}).ok());
  const std::string text = statistics_text(statistics.report(), 0);
  INFO(text);
  CHECK(text.find("-0.5") != std::string::npos);
  CHECK(text.find("-0.125") != std::string::npos);
  CHECK(text.find("0.375") != std::string::npos);
  CHECK(text.find("-2") != std::string::npos);
  CHECK(text.find("####") != std::string::npos);
  CHECK(text.find("\n2 tensors, 3 values\n") != std::string::npos);
  const MemoryModel odd = one_file({{"a", DType::F32, {1}, f32_bytes({std::nanf("")})},
                                    {"b", DType::F32, {2}, f32_bytes({HUGE_VALF, std::nanf("")})}});
  const Checkpoint other = open(odd);
  Statistics look_again(other, {});
  REQUIRE(run_in_memory(look_again, {&odd}, {&other}).ok());
  CHECK(
      statistics_text(look_again.report(), 0).find("2 tensors, 3 values, 2 hold NaN, 1 holds infinities\n") !=
      std::string::npos);
  CHECK(statistics_text({}, 0).empty());
}

TEST_CASE("short numbers have six digits and no locale") {
  for (const auto& [value, text] :
       std::vector<std::pair<double, std::string>>{{0, "0"},
                                                   {-0.0, "-0"},
                                                   {1, "1"},
                                                   {-0.5, "-0.5"},
                                                   {0.1 + 0.2, "0.3"},
                                                   {1.0 / 3, "0.333333"},
                                                   {2.0 / 3, "0.666667"},
                                                   {123456.5, "123457"},
                                                   {999999.5, "1000000"},
                                                   {123456789, "123457000"},
                                                   {1234567890, "1.23457e+09"},
                                                   {0.00012345678, "0.000123457"},
                                                   {0.00001, "1e-05"},
                                                   {1.5e-300, "1.5e-300"},
                                                   {-3.4028234663852886e38, "-3.40282e+38"},
                                                   {100, "100"},
                                                   {HUGE_VAL, "Infinity"},
                                                   {-HUGE_VAL, "-Infinity"},
                                                   {std::nan(""), "NaN"}})
    CHECK(short_number(value) == text);
}
