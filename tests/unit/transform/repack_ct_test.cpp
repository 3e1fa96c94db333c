// repack --to compressed-tensors, and its FP8 blocks out of it: codes, scales and zero points bit by bit.
#include <catch2/catch.hpp>

#include "data_file.h"
#include "qweight_models.h"
#include "tftf/base/json_value.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

const std::string kRepackedShard = "model-00001-of-00001.safetensors";

Result<TransformResult> put_into(const MemoryModel& model, const std::string& to,
                                 uint64_t tile = kDefaultTileBytes) {
  TransformRequest request{
      .command = "repack", .operations = {{.id = "repack", .options = {{"to", {to}}}}}, .tile_bytes = tile};
  return transform_in_memory(model, model.folder(), std::move(request));
}

MemoryModel converter_input(const std::string& id) {
  MemoryModel model;
  for (const char* file : {"model.safetensors", "config.json"})
    model.files[file] = tftf_test::read_data("/golden/compressed-tensors/" + id + "/in/" + file);
  return model;
}

std::map<std::string, TestTensor> repacked_tensors(const std::string& file) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(file)) out.emplace(tensor.name, tensor);
  return out;
}

MemoryModel repacked_model(const TransformResult& result) {
  MemoryModel model;
  model.files["model.safetensors"] = result.files.at(kRepackedShard);
  model.files["config.json"] = result.files.at("config.json");
  return model;
}

std::map<std::string, TestTensor> decoded_tensors(const MemoryModel& model) {
  const auto result = transform_in_memory(model, {{"dequant", {{"dtype", {"native"}}}}});
  if (!result) FAIL(result.error().message);
  return repacked_tensors(result->files.at(kRepackedShard));
}

JsonDocument repacked_config(const TransformResult& result) {
  JsonDocument document = parse_json(result.files.at("config.json"), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  return document;
}

bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("AutoAWQ and ModelOpt become what the library's own converters make, whatever the tiles") {
  for (const char* id : {"convert-awq-gemm-g32", "convert-modelopt-nvfp4"}) {
    const auto expected = repacked_tensors(
        tftf_test::read_data("/golden/compressed-tensors/" + std::string(id) + "/out/model.safetensors"));
    for (const uint64_t tile : {uint64_t{1}, uint64_t{100}, kDefaultTileBytes}) {
      INFO(id << ", tiles of " << tile << " bytes");
      const auto result = put_into(converter_input(id), "compressed-tensors", tile);
      if (!result) FAIL(result.error().message);
      const auto got = repacked_tensors(result->files.at(kRepackedShard));
      CHECK(got.size() == expected.size());
      for (const auto& [name, want] : expected) {
        INFO(name);
        REQUIRE(got.count(name) == 1);
        CHECK(got.at(name).dtype == want.dtype);
        CHECK(got.at(name).shape == want.shape);
        CHECK((got.at(name).bytes == want.bytes));
      }
      const JsonDocument config = repacked_config(*result);
      const JsonValue& section = *config.root.get("quantization_config");
      CHECK(section.string("quant_method") == "compressed-tensors");
      CHECK(section.get("ignore")->elements.at(0).text == "lm_head");
    }
  }
}

TEST_CASE("what the converters refuse is refused by name") {
  const auto cache = put_into(converter_input("convert-modelopt-nvfp4-kv-undeclared"), "compressed-tensors");
  REQUIRE_FALSE(cache.ok());
  mentions(cache.error().message, "k_scale");
  const auto excluded = put_into(converter_input("convert-awq-untargeted-qweight"), "compressed-tensors");
  REQUIRE_FALSE(excluded.ok());
  mentions(excluded.error().message, "modules_to_not_convert");
  MemoryModel floats;
  floats.files["model.safetensors"] = model_file({{"a.weight", DType::F32, {2, 2}, f32_bytes({1, 2, 3, 4})}});
  const auto nothing = put_into(floats, "compressed-tensors");
  REQUIRE_FALSE(nothing.ok());
  mentions(nothing.error().message, "awq-gemm");
}

TEST_CASE("repacked GPTQ and AWQ decode to the same values, in every width") {
  for (const uint32_t bits : {2u, 3u, 4u, 8u})
    for (const char* from : {"gptq-v1", "gptq-v2", "awq-gemm"}) {
      if (std::string(from) == "awq-gemm" && bits != 4) continue;
      for (const uint64_t group : {uint64_t{32}, uint64_t{64}}) {
        INFO(from << " " << bits << " bits, groups of " << group);
        const QweightModule module = random_module(from, bits, 64, 64, group, bits);
        MemoryModel model;
        model.files["model.safetensors"] = model_file(tensors_of_module(module, "a.proj"));
        model.files["config.json"] = R"({"quantization_config": )" + section_of(module) + "}";
        const auto result = put_into(model, "compressed-tensors", 200);
        if (!result) FAIL(result.error().message);
        const auto was = decoded_tensors(model), is = decoded_tensors(repacked_model(*result));
        REQUIRE(was.size() == is.size());
        for (const auto& [name, tensor] : was) {
          INFO(name);
          REQUIRE(is.count(name) == 1);
          CHECK((is.at(name).bytes == tensor.bytes));
        }
        const JsonDocument config = repacked_config(*result);
        const JsonValue& weights = *config.root.get("quantization_config")
                                        ->get("config_groups")
                                        ->get("config_group_0")
                                        ->get("weights");
        CHECK(weights.integer("num_bits") == static_cast<int64_t>(bits));
        CHECK(weights.string("strategy") == (group == 64 ? "channel" : "group"));
      }
    }
}

TEST_CASE("FP8 blocks go into compressed-tensors and back") {
  const std::string codes = random_bytes(128 * 200, 5);
  std::string finite = codes;
  for (char& byte : finite) byte = static_cast<char>(byte & 0x77);
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"a.proj.weight", DType::F8_E4M3, {128, 200}, finite},
                  {"a.proj.weight_scale_inv", DType::F32, {1, 2}, f32_bytes({0.5f, 2.0f})}});
  model.files["config.json"] =
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}})";
  const auto there = put_into(model, "compressed-tensors");
  if (!there) FAIL(there.error().message);
  const auto tensors = repacked_tensors(there->files.at(kRepackedShard));
  CHECK(tensors.at("a.proj.weight").bytes == finite);
  CHECK(tensors.at("a.proj.weight_scale").shape == Shape{1, 2});
  const JsonDocument config = repacked_config(*there);
  CHECK(config.root.get("quantization_config")->string("format") == "float-quantized");
  CHECK((decoded_tensors(repacked_model(*there)).at("a.proj.weight").bytes ==
         decoded_tensors(model).at("a.proj.weight").bytes));
  const auto back = put_into(repacked_model(*there), "fp8-block");
  if (!back) FAIL(back.error().message);
  CHECK((repacked_tensors(back->files.at(kRepackedShard)).at("a.proj.weight_scale_inv").bytes ==
         f32_bytes({0.5f, 2.0f})));
  mentions(back->files.at("config.json"), "\"weight_block_size\": [128, 128]");
}
