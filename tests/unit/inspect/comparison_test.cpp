// Comparisons against plain loops, and every verdict with a case that earns it.
#include "tftf/inspect/comparison.h"

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

struct Model {
  MemoryModel files;
  Checkpoint checkpoint;

  explicit Model(const std::vector<TestTensor>& tensors, const std::string& config = {},
                 const Metadata& metadata = {}) {
    files.files["model.safetensors"] = model_file(tensors, metadata);
    if (!config.empty()) files.files["config.json"] = config;
    open();
  }
  explicit Model(MemoryModel memory) : files(std::move(memory)) { open(); }

 private:
  void open() {
    auto read = read_from_memory(files, files.folder(), {});
    REQUIRE(read.ok());
    checkpoint = *std::move(read);
  }
};

ComparisonRequest with_values(double tolerance = 0, bool strict = false) {
  ComparisonRequest request;
  request.values = true;
  request.tolerance = tolerance;
  request.strict = strict;
  return request;
}

OrderedJson compare(const Model& left, const Model& right, ComparisonRequest request,
                    ValueHostOptions options = {}) {
  Comparison comparison(left.checkpoint, right.checkpoint, std::move(request));
  const auto done =
      run_in_memory(comparison, {&left.files, &right.files}, {&left.checkpoint, &right.checkpoint}, options);
  REQUIRE(done.ok());
  const std::string text = comparison.to_json();
  const OrderedJson json = OrderedJson::parse(text);
  CHECK(json_text(json) == text);
  CHECK(difference_sentence(comparison.report()).empty() == !json["different"].get<bool>());
  CHECK_FALSE(comparison_text(comparison.report(), 0).empty());
  return json;
}

std::string status(const OrderedJson& json, const std::string& name) {
  for (const OrderedJson& tensor : json["tensors"])
    if (tensor["name"] == name) return tensor["status"].get<std::string>();
  return "same";
}

std::string doubles(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), 8 * values.size()};
}
std::string whole(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), 8 * values.size()};
}

}  // namespace

TEST_CASE("headers alone: names, dtypes, shapes") {
  const Model left({{"a", DType::F32, {2}, f32_bytes({1, 2})},
                    {"b", DType::F32, {2}, f32_bytes({1, 2})},
                    {"c", DType::F32, {2}, f32_bytes({1, 2})},
                    {"only", DType::F32, {1}, f32_bytes({1})}});
  const Model right({{"a", DType::F32, {2}, f32_bytes({3, 4})},
                     {"b", DType::F16, {2}, u16_bytes({1, 2})},
                     {"c", DType::F32, {1, 2}, f32_bytes({1, 2})},
                     {"other", DType::F32, {1}, f32_bytes({1})}});
  const OrderedJson json = compare(left, right, {});
  CHECK(json["different"] == true);
  CHECK(json["values"] == false);
  CHECK(status(json, "a") == "same");  // values were not looked at
  CHECK(status(json, "b") == "dtype");
  CHECK(status(json, "c") == "shape");
  CHECK(status(json, "only") == "only_left");
  CHECK(status(json, "other") == "only_right");
  CHECK(json["summary"] == OrderedJson({{"same", 1},
                                        {"equal_values", 0},
                                        {"close", 0},
                                        {"different", 0},
                                        {"dtype", 1},
                                        {"shape", 1},
                                        {"only_left", 1},
                                        {"only_right", 1},
                                        {"not_comparable", 0}}));
  CHECK(compare(left, left, {})["different"] == false);
}

TEST_CASE("values: equal bytes, equal values, distances") {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  const Model left({{"equal", DType::F32, {3}, f32_bytes({1, nan, inf})},
                    {"form", DType::F16, {2}, u16_bytes({0x3C00, 0x4000})},
                    {"nan", DType::F32, {4}, f32_bytes({nan, inf, 1, 2})},
                    {"near", DType::F32, {4}, f32_bytes({3, 0, 4, 0})},
                    {"wide", DType::I64, {2}, whole({(int64_t{1} << 53) + 1, 5})},
                    {"zero", DType::F32, {2}, f32_bytes({0, -0.0f})}});
  const Model right({{"equal", DType::F32, {3}, f32_bytes({1, nan, inf})},
                     {"form", DType::F32, {2}, f32_bytes({1, 2})},
                     {"nan", DType::F32, {4}, f32_bytes({1, -inf, nan, 2})},
                     {"near", DType::F32, {4}, f32_bytes({3, 0, 4.5f, 1})},
                     {"wide", DType::I64, {2}, whole({int64_t{1} << 53, 5})},
                     {"zero", DType::F32, {2}, f32_bytes({-0.0f, 0})}});
  const OrderedJson json = compare(left, right, with_values());
  CHECK(json["different"] == true);
  CHECK(status(json, "equal") == "same");
  CHECK(status(json, "form") == "equal_values");
  CHECK(status(json, "zero") == "equal_values");
  CHECK(status(json, "near") == "different");
  CHECK(status(json, "nan") == "different");
  CHECK(status(json, "wide") == "different");
  const auto distance = [&](const std::string& name) {
    for (const OrderedJson& tensor : json["tensors"])
      if (tensor["name"] == name) return tensor["distance"];
    return OrderedJson();
  };
  const OrderedJson near = distance("near");
  CHECK(near["count"] == 4);
  CHECK(near["differing"] == 2);
  CHECK(near["max_abs"] == 1);
  CHECK(near["max_abs_at"] == 3);
  CHECK(near["max_relative"] == 1);
  CHECK(near["mean_abs"] == 0.375);
  CHECK(near["relative_l2"].get<double>() == Approx(std::sqrt(1.25) / 5));
  CHECK(near["cosine"].get<double>() == Approx(27 / (5 * std::sqrt(9 + 20.25 + 1))));
  CHECK(near["sqnr_db"].get<double>() == Approx(10 * std::log10(25 / 1.25)));
  const OrderedJson odd = distance("nan");
  CHECK(odd["nan"] == OrderedJson({1, 1}));
  CHECK(odd["infinite"] == OrderedJson({1, 1}));
  CHECK(odd["unmatched"] == 3);
  CHECK(odd["differing"] == 3);
  CHECK(odd["max_abs"] == 0);
  CHECK(odd["max_abs_at"].is_null());
  CHECK(odd["sqnr_db"] == "Infinity");
  CHECK(distance("wide")["differing"] == 1);
  CHECK(distance("wide")["max_abs"] == 0);
  CHECK(distance("zero")["sqnr_db"].is_null());
  CHECK(distance("zero")["cosine"].is_null());
}

TEST_CASE("the tolerance is the relative distance of a tensor, and pardons no NaN") {
  const Model left({{"a", DType::F32, {2}, f32_bytes({3, 4})}, {"z", DType::F32, {1}, f32_bytes({0})}});
  const Model right({{"a", DType::F32, {2}, f32_bytes({3, 4.5f})}, {"z", DType::F32, {1}, f32_bytes({0})}});
  CHECK(status(compare(left, right, with_values(0.1)), "a") == "close");
  CHECK(compare(left, right, with_values(0.1))["different"] == false);
  CHECK(status(compare(left, right, with_values(0.09)), "a") == "different");
  const Model nan(
      {{"a", DType::F32, {2}, f32_bytes({3, std::nanf("")})}, {"z", DType::F32, {1}, f32_bytes({1})}});
  const OrderedJson json = compare(left, nan, with_values(1e300));
  CHECK(status(json, "a") == "different");
  CHECK(status(json, "z") == "different");  // infinitely far from zero
  Comparison wrong(left.checkpoint, right.checkpoint, with_values(std::nan("")));
  CHECK(wrong.start().error().code == ErrorCode::kUsage);
}

TEST_CASE("distances of long tensors are those of plain loops, whatever order and kernels") {
  const uint64_t count = kMomentBlock + 777;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64, DType::F8_E4M3, DType::I32}) {
    INFO(dtype_name(dtype));
    const size_t size = static_cast<size_t>(count * dtype_bits(dtype) / 8);
    std::string a, b;
    if (dtype == DType::F64) {
      std::vector<double> x(static_cast<size_t>(count)), y(x.size());
      std::mt19937 random(1);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<double>(random()) / 1e6 - 2000;
        y[i] = x[i] + static_cast<double>(random() % 3) / 1e4;
      }
      a = doubles(x), b = doubles(y);
    } else {
      a = b = random_bytes(size, 9);
      for (size_t i = 0; i < size; i += 7) b[i] = static_cast<char>(b[i] ^ 1);
    }
    const Model left({{"t", dtype, {count}, a}}), right({{"t", dtype, {count}, b}});
    const OrderedJson first = compare(left, right, with_values());
    CHECK(compare(left, right, with_values(), {&scalar_kernels(), 3}) == first);
    CHECK(compare(left, right, with_values(), {nullptr, 4}) == first);
    // Plain loops.
    const auto* x = reinterpret_cast<const std::byte*>(a.data());
    const auto* y = reinterpret_cast<const std::byte*>(b.data());
    long double sum = 0, squares = 0, of_left = 0;
    double largest = 0;
    uint64_t at = 0, differing = 0, finite = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const double v = element_as_f64(dtype, x, i), w = element_as_f64(dtype, y, i);
      differing += v != w && !(std::isnan(v) && std::isnan(w)) ? 1 : 0;
      if (!std::isfinite(v) || !std::isfinite(w)) continue;
      ++finite;
      const double d = std::fabs(v - w);
      sum += d, squares += static_cast<long double>(d) * d, of_left += static_cast<long double>(v) * v;
      if (d > largest) largest = d, at = i;
    }
    const OrderedJson d = first["tensors"][0]["distance"];
    CHECK(d["differing"] == differing);
    CHECK(d["max_abs"].get<double>() == largest);
    CHECK(d["max_abs_at"] == at);
    CHECK(d["mean_abs"].get<double>() == Approx(static_cast<double>(sum / finite)).epsilon(1e-9));
    CHECK(d["relative_l2"].get<double>() ==
          Approx(static_cast<double>(std::sqrt(squares / of_left))).epsilon(1e-9));
  }
}

TEST_CASE("decibels agree with the library's logarithm") {
  for (double ratio = 1e-12; ratio < 1e12; ratio *= 3.7) {
    PairDistance distance;
    distance.sum_left = ratio;
    distance.sum_difference = 1;
    CHECK(*distance.sqnr() == Approx(10 * std::log10(ratio)).epsilon(1e-13).margin(1e-13));
  }
  PairDistance extreme;
  extreme.sum_left = 4.9e-324;
  extreme.sum_difference = 1;
  CHECK(*extreme.sqnr() == Approx(10 * std::log10(4.9e-324)).epsilon(1e-13));
  extreme.sum_left = 1.7e308;
  CHECK(*extreme.sqnr() == Approx(10 * std::log10(1.7e308)).epsilon(1e-13));
  extreme.sum_difference = 1e-300;
  CHECK(std::isinf(*extreme.sqnr()));
}

TEST_CASE("a quantised model equals what it is dequantised to") {
  const std::string config =
      R"({"dtype":"bfloat16","quantization_config":{"quant_method":"fp8","weight_block_size":[8,4]}})";
  std::string codes = random_bytes(3 * 12 * 6, 5);
  const std::string scales = f32_bytes({1, 0.5f, 3, 0.1f, 7, 0.3f, 2, 2, 1, 1.1f, 0.7f, 0.01f});
  const Model source({{"m.weight", DType::F8_E4M3, {3, 12, 6}, codes},
                      {"m.weight_scale_inv", DType::F32, {3, 2, 2}, scales},
                      {"norm", DType::BF16, {2}, u16_bytes({1, 2})}},
                     config);
  for (const char* dtype : {"bfloat16", "float16", "float32"}) {
    auto plain = transform_in_memory(source.files, {{"dequant-fp8", {{"dtype", {dtype}}}}});
    REQUIRE(plain.ok());
    MemoryModel files;
    for (const auto& [name, text] : plain->files) files.files[name] = text;
    const Model result(files);
    for (const bool forward : {true, false}) {
      const OrderedJson json =
          forward ? compare(source, result, with_values()) : compare(result, source, with_values());
      CHECK(json["different"] == false);
      CHECK(status(json, "m.weight") == "equal_values");
      CHECK(json["tensors"][0]["distance"].is_null());
      CHECK(status(json, "norm") == "same");
      CHECK(json["summary"]["only_left"] == 0);
      CHECK(json["summary"]["only_right"] == 0);
      CHECK_FALSE(json["config"].empty());
    }
    // One value changed: the sign of the last.
    MemoryModel bent = files;
    std::string& shard = bent.files.at("model-00001-of-00001.safetensors");
    const std::vector<TestTensor> written = tensors_of(shard);
    REQUIRE(written[0].name == "m.weight");
    const size_t at = shard.find(written[0].bytes) + written[0].bytes.size() - 1;
    shard[at] = static_cast<char>(shard[at] ^ 0x80);
    const OrderedJson json = compare(source, Model(bent), with_values());
    CHECK(status(json, "m.weight") == "different");
    CHECK(json["tensors"][0]["distance"]["differing"] == 1);
    CHECK(json["tensors"][0]["distance"]["max_abs_at"] == 3 * 12 * 6 - 1);
    // By headers, and strictly, it is another model.
    CHECK(compare(source, result, {})["different"] == true);
    CHECK(status(compare(source, result, {}), "m.weight_scale_inv") == "only_left");
    CHECK(compare(source, result, with_values(0, true))["different"] == true);
  }
  // One code changed, one scale changed: found through the layout.
  std::string other = codes;
  other[7] = static_cast<char>((other[7] & 0x80) | (other[7] == 0x38 ? 0x39 : 0x38));
  const Model changed({{"m.weight", DType::F8_E4M3, {3, 12, 6}, other},
                       {"m.weight_scale_inv", DType::F32, {3, 2, 2}, scales},
                       {"norm", DType::BF16, {2}, u16_bytes({1, 2})}},
                      config);
  const OrderedJson json = compare(source, changed, with_values());
  CHECK(status(json, "m.weight") == "different");
  CHECK(json["tensors"][0]["distance"]["differing"] == 1);
  CHECK(json["tensors"][0]["distance"]["max_abs_at"] == 7);
  CHECK(compare(source, source, with_values())["summary"]["same"] == 2);
}

TEST_CASE("codes of an unknown meaning compare with their like alone") {
  const std::string inverse =
      R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[8,4],"weight_scale_semantics":"inverse"}})";
  const auto fp8 = [](int first) {
    std::string codes = random_bytes(32, 1);
    codes[0] = static_cast<char>(first);
    return std::vector<TestTensor>{{"m.weight", DType::F8_E4M3, {8, 4}, codes},
                                   {"m.weight_scale_inv", DType::F32, {1, 1}, f32_bytes({2})}};
  };
  const Model left(fp8(0x38), inverse), same(fp8(0x38), inverse), other(fp8(0x30), inverse);
  const Model plain({{"m.weight", DType::F32, {8, 4}, std::string(128, '\0')}});
  CHECK(compare(left, same, with_values())["different"] == false);
  CHECK(status(compare(left, other, with_values()), "m.weight") == "different");
  const OrderedJson json = compare(left, plain, with_values());
  CHECK(status(json, "m.weight") == "not_comparable");
  CHECK(json["tensors"][0]["reason"].get<std::string>().find("fp8-block") != std::string::npos);
  CHECK(json["different"] == true);
}

TEST_CASE("complex and empty tensors") {
  const Model left({{"c", DType::C64, {1}, f32_bytes({1, 2})},
                    {"d", DType::C64, {1}, f32_bytes({1, 2})},
                    {"e", DType::F32, {0}, ""},
                    {"f", DType::C64, {1}, f32_bytes({1, 2})}});
  const Model right({{"c", DType::C64, {1}, f32_bytes({1, 2})},
                     {"d", DType::C64, {1}, f32_bytes({1, 3})},
                     {"e", DType::F16, {0}, ""},
                     {"f", DType::F64, {1}, std::string(8, '\0')}});
  const OrderedJson json = compare(left, right, with_values());
  CHECK(status(json, "c") == "same");
  CHECK(status(json, "d") == "different");
  CHECK(status(json, "e") == "equal_values");
  CHECK(status(json, "f") == "not_comparable");
}

TEST_CASE("metadata and configuration, member by member") {
  const std::vector<TestTensor> tensors = {{"a", DType::F32, {1}, f32_bytes({1})}};
  const Model left(
      tensors,
      R"({"n": 1.0, "list": [1, 2], "deep": {"a/b": 1, "gone": null}, "same": {"x": [true, {"y": 1}]}})",
      {{"format", "pt"}, {"left", "1"}, {"both", "a"}});
  const Model right(
      tensors,
      R"({"same": {"x": [true, {"y": 1.0}]}, "n": 1, "list": [2, 1], "deep": {"a/b": 2}, "new": "v"})",
      {{"both", "b"}, {"format", "pt"}, {"right", "2"}});
  const OrderedJson json = compare(left, right, {});
  CHECK(json["different"] == true);
  CHECK(json["metadata"] == OrderedJson::parse(R"([{"key":"left","left":"1","right":null},
    {"key":"both","left":"a","right":"b"},{"key":"right","left":null,"right":"2"}])"));
  CHECK(json["config"] ==
        OrderedJson::parse(R"([{"file":"config.json","pointer":"/list","left":"[1, 2]","right":"[2, 1]"},
    {"file":"config.json","pointer":"/deep/a~1b","left":"1","right":"2"},
    {"file":"config.json","pointer":"/deep/gone","left":"null","right":null},
    {"file":"config.json","pointer":"/new","left":null,"right":"\"v\""}])"));
  CHECK(compare(left, right, with_values())["different"] == false);
  CHECK(compare(left, right, with_values(0, true))["different"] == true);
  CHECK(compare(left, left, with_values(0, true))["different"] == false);
  const Model bare(tensors, "", {{"format", "pt"}, {"left", "1"}, {"both", "a"}});
  const OrderedJson without = compare(left, bare, {});
  REQUIRE(without["config"].size() == 1);
  CHECK(without["config"][0]["pointer"] == "");
  CHECK(without["config"][0]["right"].is_null());
  // No JSON on one side: as text.
  const Model broken(tensors, "{", {{"format", "pt"}, {"left", "1"}, {"both", "a"}});
  CHECK(compare(left, broken, {})["config"][0]["right"] == "{");
  CHECK(compare(broken, broken, {})["different"] == false);
}

TEST_CASE("names to be compared") {
  const Model left({{"a", DType::F32, {1}, f32_bytes({1})}, {"b", DType::F32, {1}, f32_bytes({1})}});
  const Model right({{"a", DType::F32, {1}, f32_bytes({2})}, {"c", DType::F32, {1}, f32_bytes({1})}});
  ComparisonRequest request = with_values();
  request.exclude = {"a"};
  CHECK(compare(left, right, request)["tensor_count"] == 2);
  request = with_values();
  request.names = {"a"};
  CHECK(compare(left, right, request)["summary"]["different"] == 1);
  request.names = {"c"};
  CHECK(compare(left, right, request)["summary"]["only_right"] == 1);
  request.names = {"d"};
  Comparison missing(left.checkpoint, right.checkpoint, request);
  CHECK(missing.start().error().code == ErrorCode::kRefusedMissing);
}
