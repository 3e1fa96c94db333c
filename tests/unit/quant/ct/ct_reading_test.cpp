// compressed-tensors: the bytes of its own decompression, however a model is cut.
#include <catch2/catch.hpp>
#include <cstring>

#include "data_file.h"
#include "tftf/base/json_value.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

std::string golden_file(const std::string& path) {
  return tftf_test::read_data("/golden/compressed-tensors/" + path);
}

std::map<std::string, TestTensor> named(const std::string& file) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(file)) out.emplace(tensor.name, tensor);
  return out;
}

// Its reference is the weight before it was packed, and a code has no sign for zero.
void drop_signs_of_zeros(std::string& halves) {
  for (size_t i = 0; i + 1 < halves.size(); i += 2)
    if (halves[i] == 0 && static_cast<uint8_t>(halves[i + 1]) == 0x80) halves[i + 1] = 0;
}

TransformResult dequantised(const std::string& id, uint64_t tile, const KernelTable& kernels,
                            const std::string& dtype = "native") {
  MemoryModel model;
  model.files["model.safetensors"] = golden_file(id + "/model.safetensors");
  model.files["config.json"] = golden_file(id + "/config.json");
  TransformRequest request{
      .command = "dequant", .operations = {{"dequant", {{"dtype", {dtype}}}}}, .tile_bytes = tile};
  Result<TransformResult> result =
      transform_in_memory(model, model.folder(), std::move(request), {.kernels = &kernels});
  if (!result) FAIL(result.error().message);
  return *std::move(result);
}

}  // namespace

TEST_CASE("compressed-tensors decodes to the bytes of its own decompression") {
  const JsonDocument manifest = parse_json(golden_file("manifest.json"), JsonDialect::kPython);
  REQUIRE_FALSE(manifest.error);
  size_t cases = 0;
  for (const JsonValue& one : manifest.root.get("cases")->elements) {
    const std::string id(*one.string("id"));
    std::map<std::string, TestTensor> expected = named(golden_file(id + "/expected.safetensors"));
    ++cases;
    for (const uint64_t tile : {uint64_t{1}, uint64_t{200}, kDefaultTileBytes}) {
      const KernelTable& kernels = tile == 200 ? best_kernels() : scalar_kernels();
      const TransformResult result = dequantised(id, tile, kernels);
      std::map<std::string, TestTensor> got = named(result.files.at("model.safetensors"));
      INFO(id << ", tiles of " << tile << " bytes");
      CHECK(got.size() == expected.size());
      for (auto& [name, want] : expected) {
        INFO(name);
        REQUIRE(got.count(name) == 1);
        TestTensor& have = got[name];
        CHECK(have.dtype == want.dtype);
        CHECK(have.shape == want.shape);
        if (id.rfind("marlin24", 0) == 0) {
          drop_signs_of_zeros(have.bytes);
          drop_signs_of_zeros(want.bytes);
        }
        CHECK((have.bytes == want.bytes));
      }
      const std::string& config = result.files.at("config.json");
      CHECK(config.find("quantization_config") == std::string::npos);
      CHECK(config.find("compression_config") == std::string::npos);
    }
  }
  CHECK(cases > 50);
}

TEST_CASE("compressed-tensors: another dtype is one more rounding") {
  for (const char* id :
       {"pack-int4-g16-sym-f32", "pack-int5-g32-asym-dense", "nvfp4-w4a4", "marlin24-int4-g128"}) {
    INFO(id);
    const auto native = named(dequantised(id, 300, best_kernels()).files.at("model.safetensors"));
    MemoryModel model;
    model.files["model.safetensors"] = dequantised(id, 300, best_kernels()).files.at("model.safetensors");
    for (const char* dtype : {"float32", "float16", "bfloat16"}) {
      TransformRequest request{.command = "cast", .operations = {{"cast", {{"dtype", {dtype}}}}}};
      Result<TransformResult> cast = transform_in_memory(model, model.folder(), std::move(request));
      if (!cast) FAIL(cast.error().message);
      const auto after = named(cast->files.at("model.safetensors"));
      const auto at_once = named(dequantised(id, 300, best_kernels(), dtype).files.at("model.safetensors"));
      for (const auto& [name, tensor] : native) {
        if (name.find("proj.weight") == std::string::npos) continue;
        INFO(name << " " << dtype);
        CHECK((after.at(name).bytes == at_once.at(name).bytes));
      }
    }
  }
}
