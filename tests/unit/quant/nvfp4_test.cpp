// NVFP4 through `dequant`: which convention, what decides where nothing tells, and what is folded.
#include <catch2/catch.hpp>
#include <random>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct Nvfp4File {
  uint64_t rows = 4, columns = 48;
  float global = 0.001f;
  std::string codes = random_bytes(4 * 24, 5);
  std::string scales = std::string(4 * 3, '\x38');  // 1
  std::vector<TestTensor> more{};
};

std::string nvfp4_file(const Nvfp4File& of) {
  std::vector<TestTensor> tensors = {
      {"m.weight", DType::U8, {of.rows, of.columns / 2}, of.codes},
      {"m.weight_scale", DType::F8_E4M3, {of.rows, (of.columns + 15) / 16}, of.scales},
      {"m.weight_scale_2", DType::F32, {}, f32_bytes({of.global})}};
  tensors.insert(tensors.end(), of.more.begin(), of.more.end());
  return model_file(tensors);
}

Result<TransformResult> dequantised_nvfp4(const std::string& file, const std::string& layout = "",
                                          const std::string& config = "") {
  MemoryModel model;
  model.files["model.safetensors"] = file;
  if (!config.empty()) model.files["config.json"] = config;
  Operation operation{"dequant", {{"dtype", {"float32"}}}};
  if (!layout.empty()) operation.options.push_back({"layout", {layout}});
  TransformRequest request{.command = "dequant", .operations = {std::move(operation)}};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request));
}

// Element (r, c) of the only tensor.
float nvfp4_element(const Result<TransformResult>& result, size_t at) {
  REQUIRE(result.ok());
  const auto tensors = tensors_of(result->files.at("model.safetensors"));
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name == "m.weight");
  return load_le<float>(reinterpret_cast<const std::byte*>(tensors[0].bytes.data()) + at * sizeof(float));
}

float low_first(const Nvfp4File& of, size_t at) {
  const auto pair = static_cast<uint8_t>(of.codes[at / 2]);
  return f4_values()[at % 2 == 0 ? pair & 15 : pair >> 4];
}

}  // namespace

TEST_CASE("a global scale that is no multiplier is refused, and the option that decides is named") {
  const char* modelopt = R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})";
  for (const float global : {1.0f, 731.25f, INFINITY, NAN}) {
    for (const char* config : {"", modelopt}) {
      INFO(global << " " << config);
      Nvfp4File file;
      file.global = global;
      const auto refused = dequantised_nvfp4(nvfp4_file(file), "", config);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kRefusedAmbiguous);
      CHECK(refused.error().message.find("m.weight") != std::string::npos);
      CHECK(refused.error().message.find("--layout ct-nvfp4-pack-quantized") != std::string::npos);
      CHECK(refused.error().message.find("--layout modelopt-nvfp4") != std::string::npos);
    }
  }
  Nvfp4File file;
  file.global = 731.25f;
  const std::string model = nvfp4_file(file);
  const auto multiplied = dequantised_nvfp4(model, "modelopt-nvfp4");
  const auto divided = dequantised_nvfp4(model, "ct-nvfp4-pack-quantized");
  for (const size_t at : {size_t{0}, size_t{1}, size_t{47}, size_t{100}, size_t{191}}) {
    CHECK(nvfp4_element(multiplied, at) == low_first(file, at) * 731.25f);
    CHECK(nvfp4_element(divided, at) == low_first(file, at) * (1.0f / 731.25f));
  }
  CHECK_FALSE(dequantised_nvfp4(model, "gptq-v1").ok());
  // Its scales would have to be in tiles.
  CHECK_FALSE(dequantised_nvfp4(model, "comfy-nvfp4").ok());

  file.global = 0.999f;
  CHECK(nvfp4_element(dequantised_nvfp4(nvfp4_file(file)), 5) == low_first(file, 5) * 0.999f);
}

TEST_CASE("a pre_quant_scale is folded into the columns") {
  Nvfp4File file;
  std::vector<float> factors(48);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0f + static_cast<float>(i) / 7;
  file.more = {{"m.pre_quant_scale", DType::F32, {48}, f32_bytes(factors)}};
  const auto result = dequantised_nvfp4(nvfp4_file(file));
  for (size_t at = 0; at < 192; at += 13)
    CHECK(nvfp4_element(result, at) == low_first(file, at) * file.global * factors[at % 48]);
  file.more[0] = {"m.pre_quant_scale", DType::F32, {47}, f32_bytes(std::vector<float>(47, 1))};
  const auto refused = dequantised_nvfp4(nvfp4_file(file));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("pre_quant_scale") != std::string::npos);
}

TEST_CASE("large tiles give the bytes of small ones, in every dtype and order") {
  const uint64_t rows = 144, columns = 1024;
  for (const bool comfy : {false, true})
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      INFO(comfy << " " << dtype);
      std::vector<TestTensor> tensors = {
          {"m.weight", DType::U8, {rows, columns / 2}, random_bytes(rows * columns / 2, 8)},
          {"m.weight_scale",
           DType::F8_E4M3,
           {comfy ? 256 : rows, columns / 16},
           random_bytes((comfy ? 256 : rows) * columns / 16, 9)},
          {"m.weight_scale_2", DType::F32, {}, f32_bytes({0.7f})}};
      if (comfy) {
        const std::string text = R"({"format": "nvfp4"})";
        tensors.push_back({"m.comfy_quant", DType::U8, {text.size()}, text});
      }
      MemoryModel model;
      model.files["model.safetensors"] = model_file(tensors);
      std::string first;
      for (const uint64_t tile : {kDefaultTileBytes, uint64_t{1024}}) {
        for (const KernelTable* kernels : available_kernels()) {
          TransformRequest request{
              .command = "dequant", .operations = {{"dequant", {{"dtype", {dtype}}}}}, .tile_bytes = tile};
          request.layout.single_file = true;
          TransformHostOptions host;
          host.kernels = kernels;
          const auto result =
              transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
          REQUIRE(result.ok());
          const std::string& bytes = result->files.at("model.safetensors");
          if (first.empty()) first = bytes;
          CHECK(bytes == first);
        }
      }
    }
}

TEST_CASE("values too large for the result are counted, of whole rows and of parts of groups alike") {
  Nvfp4File file;
  file.global = 0.9f;
  file.codes = std::string(4 * 24, '\x77');  // 6, 6
  file.scales = std::string(4 * 3, '\x7e');  // 448
  MemoryModel model;
  model.files["model.safetensors"] = nvfp4_file(file);
  TransformRequest request{.command = "dequant", .operations = {{"dequant", {{"dtype", {"float16"}}}}}};
  request.layout.single_file = true;
  const auto fits = transform_in_memory(model, model.file("model.safetensors"), request);
  REQUIRE(fits.ok());
  CHECK(fits->tensors.at(0).became_infinite == 0);
  file.more = {{"m.pre_quant_scale", DType::F32, {48}, f32_bytes(std::vector<float>(48, 100.0f))}};
  model.files["model.safetensors"] = nvfp4_file(file);
  const auto overflows = transform_in_memory(model, model.file("model.safetensors"), request);
  REQUIRE(overflows.ok());
  CHECK(overflows->tensors.at(0).became_infinite == 192);
}
