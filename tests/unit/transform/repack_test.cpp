#include <algorithm>
#include <catch2/catch.hpp>

#include "data_file.h"
#include "tftf/quant/registry.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Operation repack_to(const std::string& layout) { return {.id = "repack", .options = {{"to", {layout}}}}; }

Result<TransformResult> repacked(const MemoryModel& model, const std::string& layout) {
  return transform_in_memory(model, {repack_to(layout)});
}

std::map<std::string, TestTensor> by_name(const TransformResult& result) {
  std::map<std::string, TestTensor> tensors;
  for (const auto& [name, file] : result.files) {
    if (name.find(".safetensors") == std::string::npos || name.find(".json") != std::string::npos) continue;
    for (TestTensor& tensor : tensors_of(file)) tensors[tensor.name] = std::move(tensor);
  }
  return tensors;
}

constexpr const char* kProjection = "model.layers.0.self_attn.o_proj.weight";
constexpr const char* kExpertUp = "model.layers.4.mlp.experts.3.up_proj.weight";

MemoryModel fp8_model(uint64_t rows, uint64_t columns, DType scale_dtype = DType::F32) {
  const Shape grid{(rows + 127) / 128, (columns + 127) / 128};
  std::vector<TestTensor> tensors;
  uint32_t seed = 1;
  for (const char* name : {kProjection, kExpertUp}) {
    const auto count = static_cast<size_t>(grid[0] * grid[1]);
    std::vector<float> scales;
    std::vector<uint16_t> halves;
    for (size_t i = 0; i < count; ++i) {
      scales.push_back(0.001f * static_cast<float>(i + seed));
      halves.push_back(static_cast<uint16_t>(0x3C00 + 7 * i + seed));
    }
    tensors.push_back({std::string(name) + "_scale_inv", scale_dtype, grid,
                       scale_dtype == DType::F32 ? f32_bytes(scales) : u16_bytes(halves)});
    std::string codes = random_bytes(static_cast<size_t>(rows * columns), ++seed);
    for (char& code : codes)
      if ((code & 0x7F) == 0x7F) code = 0;  // NaN, which cannot be quantised
    tensors.push_back({name, DType::F8_E4M3, {rows, columns}, std::move(codes)});
  }
  tensors.push_back({"model.norm.weight", DType::BF16, {8}, random_bytes(16, 9)});
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] =
      R"({"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
  return model;
}

MemoryModel as_model(const TransformResult& result, const std::string& config) {
  MemoryModel model;
  for (const auto& [name, file] : result.files) model.files[name] = file;
  model.files["config.json"] = config;
  return model;
}

}  // namespace

TEST_CASE("FP8 blocks become colibri's and back, codes and scales bit by bit") {
  for (const auto& [rows, columns] : {std::pair{300u, 200u}, {128u, 256u}, {7u, 500u}}) {
    const MemoryModel source = fp8_model(rows, columns);
    const auto there = repacked(source, "colibri-fp8");
    REQUIRE(there.ok());
    const auto tensors = by_name(*there);
    REQUIRE(tensors.count(kProjection) == 1);
    CHECK(tensors.at(kProjection).dtype == DType::U8);
    CHECK(tensors.at(std::string(kProjection) + ".qs").shape.size() == 1);
    CHECK(tensors.count(std::string(kProjection) + "_scale_inv") == 0);
    const Metadata metadata = metadata_of(there->files.at("model-00001-of-00001.safetensors"));
    bool stamped = false;
    for (const auto& [key, value] : metadata)
      stamped = stamped || (key == "colibri.fmt" &&
                            value == "{\"" + std::string(kProjection) + "\": \"fp8-e4m3-b128\"}");
    CHECK(stamped);  // and the expert is not
    CHECK(there->account.left_quantised == 2);

    const auto back = repacked(as_model(*there, source.files.at("config.json")), "fp8-block");
    REQUIRE(back.ok());
    const auto original = tensors_of(source.files.at("model.safetensors"));
    const auto returned = by_name(*back);
    CHECK(returned.size() == original.size());
    for (const TestTensor& tensor : original) {
      INFO(tensor.name);
      REQUIRE(returned.count(tensor.name) == 1);
      CHECK(returned.at(tensor.name).dtype == tensor.dtype);
      CHECK(returned.at(tensor.name).shape == tensor.shape);
      CHECK(returned.at(tensor.name).bytes == tensor.bytes);
    }
    for (const auto& [key, value] : metadata_of(back->files.at("model-00001-of-00001.safetensors")))
      CHECK(key.find("colibri") == std::string::npos);
  }
}

TEST_CASE("dequantising the repacked model gives what dequantising its source gives") {
  for (const DType scales : {DType::F32, DType::BF16, DType::F16}) {
    const MemoryModel source = fp8_model(300, 200, scales);
    const auto there = repacked(source, "colibri-fp8");
    REQUIRE(there.ok());
    const Operation dequant{.id = "dequant", .options = {{"dtype", {"float32"}}}};
    const auto one = transform_in_memory(source, {dequant});
    const auto other = transform_in_memory(as_model(*there, source.files.at("config.json")), {dequant});
    REQUIRE(one.ok());
    REQUIRE(other.ok());
    const auto want = by_name(*one), got = by_name(*other);
    REQUIRE(want.size() == got.size());
    for (const auto& [name, tensor] : want) {
      INFO(name);
      CHECK(got.at(name).dtype == tensor.dtype);
      CHECK(got.at(name).bytes == tensor.bytes);
    }
  }
}

TEST_CASE("what a colibri reader would misread is not repacked, and a source that is not there is named") {
  const auto misread = repacked(fp8_model(2, 200), "colibri-fp8");
  REQUIRE_FALSE(misread.ok());
  CHECK(misread.error().tensor == kExpertUp);
  CHECK(misread.error().message.find("write-misread") != std::string::npos);
  MemoryModel plain;
  plain.files["model.safetensors"] = scalar_file({"a", "b"});
  const auto nothing = repacked(plain, "fp8-block");
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.error().code == ErrorCode::kRefusedMissing);
  CHECK(nothing.error().message.find("colibri-fp8-e4m3-b128") != std::string::npos);
  CHECK(nothing.error().message.find(" is needed, found is no quantised layout") != std::string::npos);
  // Blocks of another size cannot be told to a colibri reader.
  MemoryModel small = fp8_model(300, 200);
  small.files["config.json"] =
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [256, 256]}})";
  CHECK_FALSE(repacked(small, "colibri-fp8").ok());
}

TEST_CASE("rows and columns that config.json gives otherwise are a warning of every writer") {
  MemoryModel model = fp8_model(300, 200);
  model.files["config.json"] =
      R"({"hidden_size": 300, "num_attention_heads": 2, "v_head_dim": 100, "first_k_dense_replace": 3,
          "moe_intermediate_size": 200, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
  const Operation quantize{.id = "quantize", .options = {{"to", {"colibri-int8-row"}}}};
  for (const Operation& operation : {repack_to("colibri-fp8"), quantize}) {
    const auto result = transform_in_memory(model, {operation});
    REQUIRE(result.ok());
    // The projection is as config.json says, the expert is not.
    REQUIRE(result->account.warnings.size() == 1);
    CHECK(result->account.warnings[0].find("[200,300] from config.json") != std::string::npos);
    CHECK(result->account.warnings[0].find(kExpertUp) != std::string::npos);
  }
}

TEST_CASE("a model that says nothing of its FP8 blocks says so after repacking") {
  const auto there = repacked(fp8_model(300, 200), "colibri-fp8");
  REQUIRE(there.ok());
  const auto back = repacked(as_model(*there, R"({"model_type": "glm"})"), "fp8-block");
  REQUIRE(back.ok());
  CHECK(back->files.at("config.json").find("weight_block_size") != std::string::npos);
}

TEST_CASE("the registry names what repack makes of a layout") {
  const OperationInfo& info = *find_operation("repack");
  for (const std::string_view choice : info.option("to")->choices) {
    if (choice == "compressed-tensors") continue;  // whichever of its layouts takes the codes
    const QuantFormat* to = find_quant_format(choice);
    REQUIRE(to != nullptr);
    CHECK(std::any_of(quant_formats().begin(), quant_formats().end(),
                      [to](const QuantFormat* from) { return can_repack(*from, *to); }));
  }
}
