// Codes are never taken for values, and never lose the scales or the configuration that are the keys to them: casts,
// filters, dequantising, whatever the scales are called.
#include <catch2/catch.hpp>

#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kScaledOut = "model-00001-of-00001.safetensors";

TestTensor codes(const std::string& name, const Shape& shape = {4, 4}) {
  return {name, DType::F8_E4M3, shape, std::string(static_cast<size_t>(*element_count(shape)), '\x38')};
}
TestTensor number(const std::string& name, float value = 2) {
  return {name, DType::F32, {}, f32_bytes({value})};
}

Result<TransformResult> run(std::vector<TestTensor> tensors, Operation operation,
                            const std::string& config = "", const char* config_name = "config.json") {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  if (!config.empty()) model.files[config_name] = config;
  return transform_in_memory(model, {std::move(operation)});
}

const Operation kCast{"cast", {{"dtype", {"bfloat16"}}}};
const Operation kConsent{"cast", {{"dtype", {"bfloat16"}}, {"allow-unscaled", {}}}};
const Operation kDequant{"dequant", {{"dtype", {"bfloat16"}}}};
const Operation kDequantFp8{"dequant-fp8", {}};

// Every element is 1, times the scale.
bool all_are(const Result<TransformResult>& result, uint16_t want) {
  INFO((result ? "" : result.error().message));
  REQUIRE(result.ok());
  for (const TestTensor& tensor : tensors_of(result->files.at(kScaledOut)))
    if (tensor.dtype == DType::BF16 && tensor.shape == Shape{4, 4})
      return tensor.bytes == u16_bytes(std::vector<uint16_t>(16, want));
  return false;
}

}  // namespace

TEST_CASE("FP8 codes with a scale beside them are cast by consent only, whatever its name") {
  for (const char* scale : {"m.weight_scale", "m.weight_scale_inv", "m.scale_weight", "m.qscale_weight",
                            "m.scale", "m.scales", "m.w_scale", "m.weight.scale", "m.weight_qscale",
                            "m.weight_scales", "m.weight_scale_1", "m.input_scale"}) {
    INFO(scale);
    const auto refused = run({codes("m.weight"), number(scale)}, kCast);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("--allow-unscaled") != std::string::npos);
    CHECK(refused.error().message.find("m.weight") != std::string::npos);
    CHECK(all_are(run({codes("m.weight"), number(scale)}, kConsent), 0x3F80));
  }
  // A stacked parameter, and a scale as exponents.
  CHECK_FALSE(run({codes("x.gate_up_proj", {2, 4, 4}), number("x.gate_up_proj_scale")}, kCast).ok());
  CHECK_FALSE(
      run({codes("m.weight"), {"m.weight_scale_inv", DType::U8, {4, 1}, "\x7f\x7f\x7f\x7f"}}, kCast).ok());
  // Scales of others, and integers that only have the word.
  CHECK(run({codes("m.weight"), number("n.weight_scale_inv2.scale")}, kCast).ok());
  CHECK(run({codes("m.weight"), {"m.scale_count", DType::I64, {}, std::string(8, '\1')}}, kCast).ok());
}

TEST_CASE("every spelling of a multiplier multiplies, in dequant and dequant-fp8 alike") {
  for (const char* scale : {"m.weight_scale_inv", "m.scale_weight", "m.qscale_weight"}) {
    INFO(scale);
    CHECK(all_are(run({codes("m.weight"), number(scale)}, kDequant), 0x4000));
    CHECK(all_are(run({codes("m.weight"), number(scale)}, kDequantFp8), 0x4000));
  }
  CHECK(all_are(run({codes("m.weight"), number("m.weight_scale")}, kDequant), 0x4000));
  // A scale that no layout has is no reason to take codes for values.
  for (const Operation& operation : {kDequant, kDequantFp8}) {
    const auto refused = run({codes("m.weight"), number("m.w_scale")}, operation);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("m.w_scale") != std::string::npos);
  }
}

TEST_CASE("what belongs to a dequantised weight goes with it") {
  for (const Operation& operation : {kDequant, kDequantFp8})
    for (const char* extra : {"m.input_scale", "m.activation_scale", "m.qscale_act"}) {
      INFO(operation.id << " " << extra);
      const auto result =
          run({codes("m.weight"), number("m.weight_scale_inv"), number(extra), number("other")}, operation);
      REQUIRE(result.ok());
      std::vector<std::string> names;
      for (const TestTensor& tensor : tensors_of(result->files.at(kScaledOut))) names.push_back(tensor.name);
      CHECK(names == std::vector<std::string>{"m.weight", "other"});
    }
}

TEST_CASE("grids of every form give one answer in dequant and dequant-fp8") {
  struct Form {
    Shape weight, scale;
    bool fits;
  };
  for (const Form& form :
       {Form{{200, 300}, {2, 3}, true}, Form{{200, 300}, {3, 2}, true},  // as it is, transposed
        Form{{200, 300}, {1, 300}, true}, Form{{200, 300}, {200, 1}, true}, Form{{200, 300}, {1, 1}, true},
        Form{{2, 200, 300}, {2, 2, 3}, true}, Form{{2, 2, 200, 300}, {2, 2, 2, 3}, true},
        Form{{2, 200, 300}, {2, 3, 2}, true}, Form{{200, 300}, {5, 3}, false},
        Form{{200, 300}, {7, 7}, false}}) {
    INFO(shape_text(form.weight) << " " << shape_text(form.scale));
    const size_t count = static_cast<size_t>(*element_count(form.scale));
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.5f + static_cast<float>(i % 7);
    const std::vector<TestTensor> tensors = {
        codes("m.weight", form.weight), {"m.weight_scale_inv", DType::F32, form.scale, f32_bytes(values)}};
    const auto one = run(tensors, kDequant), other = run(tensors, kDequantFp8);
    CHECK(one.ok() == form.fits);
    CHECK(other.ok() == form.fits);
    if (!form.fits || !one.ok() || !other.ok()) continue;
    CHECK(tensors_of(one->files.at(kScaledOut))[0].bytes == tensors_of(other->files.at(kScaledOut))[0].bytes);
  }
  // Declared blocks: a larger grid is cropped, a smaller one refused.
  const std::string declared =
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
  for (const Operation& operation : {kDequant, kDequantFp8}) {
    const auto grid = [&](const Shape& scale) {
      return run({codes("m.weight", {200, 300}),
                  {"m.weight_scale_inv", DType::F32, scale,
                   f32_bytes(std::vector<float>(static_cast<size_t>(*element_count(scale)), 2))}},
                 operation, declared)
          .ok();
    };
    CHECK(grid({2, 3}));
    CHECK(grid({4, 3}));
    CHECK_FALSE(grid({1, 3}));
    CHECK_FALSE(grid({1, 1}));
  }
}

TEST_CASE("packed codes and what goes with them are left alone by a cast, and said") {
  const std::vector<TestTensor> tensors = {
      {"m.qweight", DType::I32, {4, 32}, std::string(512, '\x11')},
      {"m.qzeros", DType::I32, {1, 4}, std::string(16, '\x77')},
      {"m.scales", DType::F16, {1, 32}, std::string(64, '\x3c')},
      {"m.g_idx", DType::I32, {32}, std::string(128, '\0')},
      {"norm", DType::F32, {2}, f32_bytes({1, 2})},
  };
  const auto result = run(tensors, kCast);
  REQUIRE(result.ok());
  const auto out = tensors_of(result->files.at(kScaledOut));
  REQUIRE(out.size() == tensors.size());
  for (const TestTensor& tensor : out) {
    INFO(tensor.name);
    for (const TestTensor& from : tensors) {
      if (from.name != tensor.name) continue;
      CHECK((tensor.bytes == from.bytes) == (tensor.name != "norm"));
    }
  }
  REQUIRE(result->account.warnings.size() == 1);
  CHECK(result->account.warnings[0].find("gptq") != std::string::npos);
  // A broken module is not cast either.
  auto broken = tensors;
  broken.erase(broken.begin() + 2);
  CHECK_FALSE(run(broken, kCast).ok());
}

TEST_CASE("a configuration that names a method stays while codes stay, and nothing is done over it") {
  const TestTensor unknown{"m.weight", DType::I8, {4, 4}, std::string(16, '\1')};
  for (const char* method : {"eetq", "bitnet", "higgs", "sinq", "something_new"}) {
    INFO(method);
    const std::string config = std::string(R"({"quantization_config": {"quant_method": ")") + method + "\"}}";
    for (const Operation& operation : {kDequant, kDequantFp8, kCast}) {
      const auto result = run({unknown, number("x")}, operation, config);
      REQUIRE_FALSE(result.ok());
      CHECK(result.error().message.find("m.weight") != std::string::npos);
      CHECK(result.error().message.find(method) != std::string::npos);
    }
  }
  // Beside modules that are read: they are dequantised, the section stays with the codes.
  const std::string fp8 = R"({"quantization_config": {"quant_method": "fp8"}})";
  const auto mixed = run({codes("a.weight"), number("a.weight_scale_inv"), unknown}, kDequant, fp8);
  REQUIRE(mixed.ok());
  CHECK(mixed->account.left_quantised == 1);
  CHECK(mixed->copied == std::vector<std::string>{"config.json"});
  // Integers that are no weights, and models whose configuration names nothing, are what they were.
  CHECK(run({{"m.table", DType::I64, {4, 4}, std::string(128, '\1')}}, kDequant, fp8).ok());
  CHECK(run({unknown}, kCast).ok());
}

TEST_CASE("every configuration that speaks of the codes loses its section with them") {
  const auto text_of = [](const char* name, const std::string& config) {
    const auto result =
        run({codes("m.weight"), number("m.qscale_weight"), number("m.qscale_act")}, kDequant, config, name);
    REQUIRE(result.ok());
    return result->files.at(name);
  };
  CHECK(text_of("params.json", R"({"dim": 4, "quantization": {"qformat_weight": "fp8_e4m3"}})") ==
        R"({"dim": 4})");
  CHECK(text_of("config.json",
                R"({"a": 1, "text_config": {"quantization_config": {"quant_method": "fp8"}}})") ==
        R"({"a": 1, "text_config": {}})");
}

TEST_CASE("a filter that parts codes from their scales says so") {
  const std::vector<TestTensor> tensors = {codes("a.weight"), number("a.weight_scale_inv"), codes("b.weight"),
                                           number("b.weight_scale_inv")};
  const auto parted = run(tensors, {"filter", {{"include", {"*.weight"}}}});
  REQUIRE(parted.ok());
  REQUIRE(parted->account.warnings.size() == 1);
  CHECK(parted->account.warnings[0].find("2 modules") != std::string::npos);
  CHECK(run(tensors, {"filter", {{"include", {"a.*"}}}})->account.warnings.empty());
}
