// Repacking to ComfyUI's layouts.
#include <catch2/catch.hpp>

#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> to_comfy(const MemoryModel& model, const std::string& layout) {
  return transform_in_memory(model, {{.id = "repack", .options = {{"to", {layout}}}}});
}

std::map<std::string, TestTensor> tensors_by_name(const TransformResult& result) {
  std::map<std::string, TestTensor> tensors;
  for (const auto& [name, file] : result.files) {
    if (name.find(".safetensors") == std::string::npos || name.find(".json") != std::string::npos) continue;
    for (TestTensor& tensor : tensors_of(file)) tensors[tensor.name] = std::move(tensor);
  }
  return tensors;
}

MemoryModel scaled_fp8(DType dtype, uint64_t marker, float input) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(
      {{"x.a.weight", dtype, {4, 8}, random_bytes(32, 1)},
       {"x.a.scale_weight", DType::F32, {}, f32_bytes({0.5f})},
       {"x.a.scale_input", DType::F32, {}, f32_bytes({input})},
       {"x.plain.weight", DType::BF16, {4, 8}, random_bytes(64, 2)},
       {"x.plain.scale_weight", DType::F32, {}, f32_bytes({1.0f})},
       {"x.scaled_fp8", DType::F8_E4M3, {marker}, std::string(static_cast<size_t>(marker), '\0')}});
  return model;
}

MemoryModel nvfp4(const Shape& codes, const Shape& scales, bool with_factors) {
  std::vector<TestTensor> tensors = {
      {"m.weight", DType::U8, codes, random_bytes(static_cast<size_t>(*element_count(codes)), 3)},
      {"m.weight_scale", DType::F8_E4M3, scales,
       std::string(static_cast<size_t>(*element_count(scales)), '\x38')},
      {"m.weight_scale_2", DType::F32, {}, f32_bytes({0.01f})},
      {"m.input_scale", DType::F32, {}, f32_bytes({0.02f})}};
  if (with_factors)
    tensors.push_back({"m.pre_quant_scale",
                       DType::F32,
                       {codes.back() * 2},
                       f32_bytes(std::vector<float>(static_cast<size_t>(codes.back() * 2), 1.5f))});
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] =
      R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})";
  return model;
}

}  // namespace

TEST_CASE("the older scaled FP8 becomes comfy_quant: names alone change, and what says nothing goes") {
  const auto result = to_comfy(scaled_fp8(DType::F8_E4M3, 0, 1.0f), "comfy-quant");
  REQUIRE(result.ok());
  const auto tensors = tensors_by_name(*result);
  CHECK(tensors.size() == 4);
  CHECK(tensors.at("x.a.weight").bytes == random_bytes(32, 1));
  CHECK(tensors.at("x.a.weight_scale").bytes == f32_bytes({0.5f}));
  CHECK(tensors.at("x.a.comfy_quant").bytes == R"({"format": "float8_e4m3fn"})");
  CHECK(tensors.count("x.plain.weight") == 1);
  // A text of any length stands behind all else, which so keeps its alignment.
  for (const auto& [name, file] : result->files)
    if (name.find(".json") == std::string::npos) CHECK(tensors_of(file).back().name == "x.a.comfy_quant");
}

TEST_CASE("the marker's size, the weight's dtype and a scale of activations are carried over") {
  const auto result = to_comfy(scaled_fp8(DType::F8_E5M2, 2, 0.25f), "comfy-quant");
  REQUIRE(result.ok());
  const auto tensors = tensors_by_name(*result);
  CHECK(tensors.at("x.a.comfy_quant").bytes ==
        R"({"format": "float8_e5m2", "full_precision_matrix_mult": true})");
  CHECK(tensors.at("x.a.input_scale").bytes == f32_bytes({0.25f}));
}

TEST_CASE("ModelOpt's NVFP4 becomes ComfyUI's, which means the same values") {
  const MemoryModel model = nvfp4({40, 24}, {40, 3}, true);
  const auto result = to_comfy(model, "comfy-nvfp4");
  REQUIRE(result.ok());
  auto tensors = tensors_by_name(*result);
  CHECK(tensors.at("m.weight").shape == Shape{48, 24});
  CHECK(tensors.at("m.weight_scale").shape == Shape{128, 4});
  CHECK(tensors.at("m.weight_scale_2").bytes == f32_bytes({0.01f}));
  CHECK(tensors.at("m.input_scale").bytes == f32_bytes({0.02f}));
  CHECK(tensors.at("m.comfy_quant").bytes == R"({"format": "nvfp4"})");
  // The configuration of another producer goes.
  CHECK(result->files.at("config.json").find("modelopt") == std::string::npos);
  const Operation plain{.id = "dequant", .options = {{"dtype", {"float32"}}}};
  const auto before = transform_in_memory(model, {plain});
  MemoryModel there;
  for (const auto& [name, file] : result->files) there.files[name] = file;
  const auto after = transform_in_memory(there, {plain});
  REQUIRE(before.ok());
  REQUIRE(after.ok());
  const std::string want = tensors_by_name(*before).at("m.weight").bytes;
  const std::string have = tensors_by_name(*after).at("m.weight").bytes;
  CHECK((have.substr(0, want.size()) == want));
  CHECK(have.find_first_not_of('\0', want.size()) == std::string::npos);  // rows that pad
}

TEST_CASE("what ComfyUI has no place for is refused with the reason") {
  const auto message_of = [](const Result<TransformResult>& result) {
    REQUIRE_FALSE(result.ok());
    return result.error().message;
  };
  CHECK(message_of(to_comfy(nvfp4({2, 32, 24}, {2, 32, 3}, false), "comfy-nvfp4"))
            .find("a stack of matrices") != std::string::npos);
  CHECK(message_of(to_comfy(nvfp4({32, 20}, {32, 3}, false), "comfy-nvfp4")).find("no multiple of 16") !=
        std::string::npos);
  MemoryModel nothing;
  nothing.files["model.safetensors"] = scalar_file({"a"});
  CHECK(message_of(to_comfy(nothing, "comfy-quant")).find("comfy-scaled-fp8 is needed") != std::string::npos);
}
