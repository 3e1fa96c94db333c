// bitsandbytes: both spellings, geometry faults, and what is written, against the formulas element by element.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "data_file.h"
#include "quant/bnb_tables.h"
#include "tftf/base/bytes.h"
#include "tftf/base/json_value.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kName = "model.layers.0.mlp.up_proj.weight";

std::string bnb_case(const std::string& id, const std::string& file = "model.safetensors") {
  return tftf_test::read_data("/golden/quant/" + id + "/" + file);
}

Result<TransformResult> convert(const std::string& file, Operation operation,
                                uint64_t tile = kDefaultTileBytes, TransformHostOptions host = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = file;
  TransformRequest request{.command = operation.id, .operations = {std::move(operation)}, .tile_bytes = tile};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
}

Operation dequant_native() { return {"dequant", {{"dtype", {"native"}}}}; }

std::map<std::string, TestTensor> by_name(const std::string& file) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(file)) out.emplace(tensor.name, tensor);
  return out;
}

void check_same_tensors(const std::string& got, const std::string& want) {
  const auto a = by_name(got), b = by_name(want);
  CHECK(a.size() == b.size());
  for (const auto& [name, tensor] : b) {
    INFO(name);
    REQUIRE(a.count(name) == 1);
    CHECK(a.at(name).dtype == tensor.dtype);
    CHECK(a.at(name).shape == tensor.shape);
    CHECK(a.at(name).bytes == tensor.bytes);
  }
}

// The code whose distance in F32 is least, the first of equal ones, as an argmin over the table gives it.
uint8_t nearest(std::span<const float> map, float x) {
  size_t best = 0;
  if (std::isnan(x)) return 0;
  for (size_t i = 1; i < map.size(); ++i)
    if (std::abs(x - map[i]) < std::abs(x - map[best])) best = i;
  return static_cast<uint8_t>(best);
}

float float_at(const std::string& bytes, size_t i) {
  float x;
  std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
  return x;
}

struct Written {
  std::string codes, absmax, nested_absmax;
  float offset = 0;
};

// bitsandbytes' own quantiser, written plainly. `values` as they are in the weight's dtype.
Written written_plainly(const std::vector<float>& values, DType dtype, bool is_fp4, size_t block,
                        bool nested) {
  const std::span<const float> map = is_fp4 ? kBnbFp4Map : kBnbNf4Map;
  std::vector<uint8_t> codes;
  std::vector<float> magnitudes;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    const size_t end = std::min(values.size(), begin + block);
    float magnitude = 0;
    for (size_t i = begin; i < end; ++i) magnitude = std::max(magnitude, std::abs(values[i]));
    magnitudes.push_back(magnitude);
    const float inverse = 1.0f / magnitude;
    for (size_t i = begin; i < end; ++i) {
      float x = std::clamp(values[i] * inverse, -1.0f, 1.0f);
      if (end - begin < block && dtype == DType::BF16) x = f32_from_bf16(bf16_from_f32(x));
      if (end - begin < block && dtype == DType::F16) x = f32_from_f16(f16_from_f32(x));
      codes.push_back(nearest(map, x));
    }
  }
  if (codes.size() % 2 != 0) codes.push_back(nearest(map, 0.0f));
  Written out;
  for (size_t i = 0; i < codes.size(); i += 2) out.codes += static_cast<char>(codes[i] << 4 | codes[i + 1]);
  if (!nested) {
    out.absmax = f32_bytes(magnitudes);
    return out;
  }
  double sum = 0;  // exact for what the tests hold
  for (const float m : magnitudes) sum += static_cast<double>(m);
  out.offset = static_cast<float>(sum / static_cast<double>(magnitudes.size()));
  std::vector<float> largest;
  for (size_t begin = 0; begin < magnitudes.size(); begin += 256) {
    const size_t end = std::min<size_t>(magnitudes.size(), begin + 256);
    float scale = 0;
    for (size_t i = begin; i < end; ++i) scale = std::max(scale, std::abs(magnitudes[i] - out.offset));
    largest.push_back(scale);
    for (size_t i = begin; i < end; ++i)
      out.absmax += static_cast<char>(
          nearest(bnb_dynamic_map(), std::clamp((magnitudes[i] - out.offset) * (1.0f / scale), -1.0f, 1.0f)));
  }
  out.nested_absmax = f32_bytes(largest);
  return out;
}

std::string as_dtype(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::F32) return f32_bytes(values);
  std::vector<uint16_t> codes;
  for (const float x : values) codes.push_back(dtype == DType::BF16 ? bf16_from_f32(x) : f16_from_f32(x));
  return u16_bytes(codes);
}

}  // namespace

TEST_CASE("the steps of bitsandbytes' tables give the nearest code, the lowest of equally near ones") {
  std::mt19937 random(3);
  const std::array<float, 256>& dynamic = bnb_dynamic_map();
  for (const std::span<const float> map :
       {std::span<const float>(kBnbNf4Map), std::span<const float>(kBnbFp4Map),
        std::span<const float>(dynamic)}) {
    const BnbSteps steps(map);
    std::vector<float> tried = {0.0f, -0.0f, 1.0f, -1.0f, 1e-30f, -1e-30f};
    for (int i = 0; i < 20000; ++i) tried.push_back(static_cast<float>(random()) / 2147483648.0f - 1.0f);
    for (const float a : map)  // and around the middle of every two codes
      for (const float b : map)
        for (int ulp = -2; ulp <= 2; ++ulp) {
          const auto bits = bit_cast<uint32_t>((a + b) / 2);
          tried.push_back(bit_cast<float>(bits + static_cast<uint32_t>(bits == 0 ? 0 : ulp)));
        }
    size_t wrong = 0;
    for (const float x : tried) wrong += std::abs(x) <= 1.0f && steps.code(x) != nearest(map, x);
    CHECK(wrong == 0);
    CHECK(steps.code(std::nanf("")) == 0);
    if (map.size() != 16) continue;
    std::vector<uint8_t> codes(tried.size());
    steps.codes16(tried.data(), tried.size(), codes.data());
    for (size_t i = 0; i < tried.size(); ++i) wrong += codes[i] != steps.code(tried[i]);
    CHECK(wrong == 0);
  }
}

TEST_CASE("bitsandbytes' golden files are dequantised, whatever the tile") {
  for (const char* id :
       {"bnb-nf4-b64", "bnb-nf4-nested", "bnb-nf4-odd", "bnb-fp4-b64", "bnb-nf4-storage-bf16", "bnb-nf4-3d",
        "bnb-nf4-nocfg", "bnb-nf4-own-map", "bnb-int8"}) {
    for (const uint64_t tile : {kDefaultTileBytes, uint64_t{256}, uint64_t{1000}}) {
      INFO(id << " " << tile);
      TransformHostOptions host;
      host.kernels = tile == 256 ? &best_kernels() : nullptr;
      const auto done = convert(bnb_case(id), dequant_native(), tile, host);
      if (!done.ok()) UNSCOPED_INFO(done.error().message);
      REQUIRE(done.ok());
      check_same_tensors(done->files.at("model.safetensors"), bnb_case(id, "expected.safetensors"));
    }
  }
}

TEST_CASE("GPTQModel's names for the parts of bitsandbytes are read alike") {
  for (const std::string id : {"bnb-nf4-b64", "bnb-nf4-nested", "bnb-fp4-b64", "bnb-int8"}) {
    INFO(id);
    std::vector<TestTensor> tensors = tensors_of(bnb_case(id));
    for (TestTensor& tensor : tensors) {
      const std::string stem = tensor.name.substr(0, std::strlen(kName));
      if (stem == kName && tensor.name.size() > stem.size()) {
        const std::string part = tensor.name.substr(stem.size() + 1);
        tensor.name = stem + "_" + (part.find("quant_state") == 0 ? "quant_state" : part);
      }
      if (tensor.name.find(".SCB") != std::string::npos)
        tensor.name.replace(tensor.name.size() - 3, 3, "weight_scb");
    }
    const auto done = convert(model_file(tensors), dequant_native());
    if (!done.ok()) UNSCOPED_INFO(done.error().message);
    REQUIRE(done.ok());
    check_same_tensors(done->files.at("model.safetensors"), bnb_case(id, "expected.safetensors"));
  }
}

TEST_CASE("a module of bitsandbytes whose parts do not fit is refused by its name") {
  struct Fault {
    std::string part;
    DType dtype;
    Shape shape;
    std::string says;
  };
  const std::vector<Fault> faults = {
      {"", DType::U8, {1023, 1}, "1023"},
      {"", DType::U8, {1025, 1}, "1025"},
      {".absmax", DType::F32, {31}, "absmax"},
      {".absmax", DType::F32, {33}, "absmax"},
      {".absmax", DType::U8, {32}, "nested"},
      {".quant_map", DType::F32, {15}, "quant_map"},
      {".quant_map", DType::F16, {16}, "quant_map"},
  };
  for (const Fault& fault : faults) {
    std::vector<TestTensor> tensors = tensors_of(bnb_case("bnb-nf4-b64"));
    for (TestTensor& tensor : tensors) {
      if (tensor.name != kName + fault.part) continue;
      tensor.dtype = fault.dtype;
      tensor.shape = fault.shape;
      tensor.bytes.resize(static_cast<size_t>(*element_count(fault.shape) * dtype_bits(fault.dtype) / 8));
    }
    INFO(fault.part << " " << shape_text(fault.shape));
    const auto done = convert(model_file(tensors), dequant_native());
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().message.find(kName) != std::string::npos);
    CHECK(done.error().message.find(fault.says) != std::string::npos);
  }
  const std::vector<std::string> states = {
      "",
      "{",
      "[]",
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16"})",
      R"({"quant_type": "nf4", "blocksize": 0, "dtype": "bfloat16", "shape": [32, 64]})",
      R"({"quant_type": "nf4", "blocksize": 63, "dtype": "bfloat16", "shape": [32, 64]})",
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "int8", "shape": [32, 64]})",
      R"({"quant_type": "fp4", "blocksize": 64, "dtype": "bfloat16", "shape": [32, 64]})",
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [32, -64]})",
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4294967296, 4294967296]})",
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [32, 64], "nested_blocksize": 256,
          "nested_offset": 0.5})"};
  for (const std::string& state : states) {
    std::vector<TestTensor> tensors = tensors_of(bnb_case("bnb-nf4-b64"));
    for (TestTensor& tensor : tensors) {
      if (tensor.name.find("quant_state") == std::string::npos) continue;
      tensor.bytes = state;
      tensor.shape = {state.size()};
    }
    INFO(state);
    const auto done = convert(model_file(tensors), dequant_native());
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().message.find(kName) != std::string::npos);
  }
  std::vector<TestTensor> tensors = tensors_of(bnb_case("bnb-int8"));
  for (TestTensor& tensor : tensors)
    if (tensor.name.find("weight_format") != std::string::npos) tensor.bytes = "\x01";
  const auto old = convert(model_file(tensors), dequant_native());
  REQUIRE_FALSE(old.ok());
  CHECK(old.error().message.find("weight_format") != std::string::npos);
}

TEST_CASE("matrices become the bytes that bitsandbytes' own quantiser makes, nested or not") {
  std::mt19937 random(17);
  std::normal_distribution<float> normal(0.0f, 0.03f);
  for (const bool is_fp4 : {false, true})
    for (const bool nested : {false, true})
      for (const DType dtype : {DType::F32, DType::BF16, DType::F16})
        for (const auto& [rows, columns, block] : {std::tuple<size_t, size_t, size_t>{5, 13, 64},
                                                   {1, 1, 64},
                                                   {3, 64, 64},
                                                   {40, 700, 64},
                                                   {9, 300, 128}}) {
          INFO((is_fp4 ? "fp4 " : "nf4 ")
               << nested << " " << dtype_name(dtype) << " " << rows << "x" << columns);
          std::vector<float> values(rows * columns);
          for (float& x : values) x = normal(random);
          for (size_t i = 0; i < std::min<size_t>(values.size(), 64); ++i)
            if (rows == 3) values[i] = 0.0f;  // a block of zeros
          const std::string bytes = as_dtype(values, dtype);
          for (float& x : values) {
            if (dtype == DType::BF16) x = f32_from_bf16(bf16_from_f32(x));
            if (dtype == DType::F16) x = f32_from_f16(f16_from_f32(x));
          }
          const std::string type = is_fp4 ? "fp4" : "nf4";
          Operation quantise{"quantize", {{"to", {"bnb-" + type}}, {"group-size", {std::to_string(block)}}}};
          if (nested) quantise.options.push_back({"nested", {}});
          const std::string file = model_file({{"m.weight", dtype, {rows, columns}, bytes}});
          const auto done = convert(file, quantise);
          if (!done.ok()) UNSCOPED_INFO(done.error().message);
          REQUIRE(done.ok());
          const std::string& made = done->files.at("model.safetensors");
          TransformHostOptions host{&best_kernels(), 11};
          const auto again = convert(file, quantise, 4096, host);
          REQUIRE(again.ok());
          CHECK(again->files.at("model.safetensors") == made);

          const auto tensors = by_name(made);
          const Written want = written_plainly(values, dtype, is_fp4, block, nested);
          CHECK(tensors.at("m.weight").shape == Shape{(rows * columns + 1) / 2, 1});
          CHECK(tensors.at("m.weight").bytes == want.codes);
          CHECK(tensors.at("m.weight.absmax").bytes == want.absmax);
          const TestTensor& state = tensors.at("m.weight.quant_state.bitsandbytes__" + type);
          const JsonDocument json = parse_json(state.bytes, JsonDialect::kPython);
          REQUIRE_FALSE(json.error);
          CHECK(json.root.string("dtype") == std::string(dtype_info(dtype).torch));
          CHECK(json.root.integer("blocksize") == static_cast<int64_t>(block));
          CHECK(tensors.size() == (nested ? 6u : 4u));
          if (nested) {
            CHECK(tensors.at("m.weight.nested_absmax").bytes == want.nested_absmax);
            CHECK(static_cast<float>(*json.root.number("nested_offset")) == want.offset);
          }
          // And back: no further than half the widest gap of the table.
          const auto back = convert(made, {"dequant", {{"dtype", {"float32"}}}});
          if (!back.ok()) UNSCOPED_INFO(back.error().message);
          REQUIRE(back.ok());
          const TestTensor plain = by_name(back->files.at("model.safetensors")).at("m.weight");
          CHECK(plain.shape == Shape{rows, columns});
          size_t outside = 0;
          float largest = 0;
          for (const float x : values) largest = std::max(largest, std::abs(x));
          for (size_t i = 0; i < values.size(); ++i) {
            float magnitude = 0;
            const size_t begin = i / block * block;
            for (size_t j = begin; j < std::min(values.size(), begin + block); ++j)
              magnitude = std::max(magnitude, std::abs(values[j]));
            const float gap = is_fp4 ? 1.0f / 6 : 0.152f;
            outside += std::abs(float_at(plain.bytes, i) - values[i]) >
                       magnitude * gap * 1.03f + (nested ? 0.02f * largest : 0.0f);
          }
          CHECK(outside == 0);
        }
}

TEST_CASE("the offset of nested scales is a sum in no order, and scales beyond its reach are refused") {
  // Sizes as far apart as they may be: the sum of floats would depend on its order.
  std::vector<float> values;
  for (int i = 0; i < 600; ++i)
    for (int j = 0; j < 64; ++j)
      values.push_back(j == 0 ? std::ldexp(1.0f + 0.001f * static_cast<float>(i), i % 60 - 33) : 0.0f);
  const std::string file = model_file({{"m.weight", DType::F32, {600, 64}, f32_bytes(values)}});
  const Operation quantise{"quantize", {{"to", {"bnb-nf4"}}, {"nested", {}}}};
  const auto one = convert(file, quantise);
  REQUIRE(one.ok());
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const auto many = convert(file, quantise, 4096, {&best_kernels(), seed});
    REQUIRE(many.ok());
    CHECK(many->files.at("model.safetensors") == one->files.at("model.safetensors"));
  }
  values[0] = 0x1p30f;
  const auto huge = convert(model_file({{"m.weight", DType::F32, {600, 64}, f32_bytes(values)}}), quantise);
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.error().code == ErrorCode::kRefusedValues);
  const auto plain = convert(model_file({{"m.weight", DType::F32, {600, 64}, f32_bytes(values)}}),
                             {"quantize", {{"to", {"bnb-nf4"}}}});
  CHECK(plain.ok());
}

TEST_CASE("options that bitsandbytes' readers do not know are refused") {
  const std::string file =
      model_file({{"m.weight", DType::F32, {2, 64}, f32_bytes(std::vector<float>(128, 1.0f))}});
  for (const char* size : {"1", "16", "63", "96", "8192"})
    CHECK_FALSE(convert(file, {"quantize", {{"to", {"bnb-nf4"}}, {"group-size", {size}}}}).ok());
  CHECK_FALSE(convert(file, {"quantize", {{"to", {"bnb-nf4"}}, {"bits", {"3"}}}}).ok());
  const auto other = convert(file, {"quantize", {{"to", {"fp8-block"}}, {"nested", {}}}});
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().code == ErrorCode::kUsage);
}

TEST_CASE("config.json says how transformers is to load what was written") {
  MemoryModel model;
  const std::string bytes = f32_bytes(std::vector<float>(128, 0.5f));
  model.files["model.safetensors"] =
      model_file({{"a.weight", DType::F32, {2, 64}, bytes}, {"lm_head.weight", DType::F32, {2, 64}, bytes}});
  model.files["config.json"] = R"({"model_type": "llama"})";
  Operation quantise{"quantize", {{"to", {"bnb-nf4"}}, {"nested", {}}, {"exclude", {"lm_head*"}}}};
  const auto done = transform_in_memory(model, {quantise});
  REQUIRE(done.ok());
  const JsonDocument config = parse_json(done->files.at("config.json"), JsonDialect::kPython);
  REQUIRE_FALSE(config.error);
  const JsonValue* section = config.root.get("quantization_config");
  REQUIRE(section != nullptr);
  CHECK(section->string("quant_method") == "bitsandbytes");
  CHECK(section->string("bnb_4bit_quant_type") == "nf4");
  CHECK(section->string("bnb_4bit_compute_dtype") == "float32");
  CHECK(section->get("load_in_4bit")->is_true());
  CHECK(section->get("bnb_4bit_use_double_quant")->is_true());
  const JsonValue* skipped = section->get("llm_int8_skip_modules");
  REQUIRE(skipped != nullptr);
  REQUIRE(skipped->elements.size() == 1);
  CHECK(skipped->elements[0].text == "lm_head");
}
