// What the files of a result are called, and what follows the names of tensors into config.json.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

const std::vector<TestTensor> kTensors = {{"a.b.q.weight", DType::F32, {1, 2}, f32_bytes({1, 2})},
                                          {"a.b.v.weight", DType::F32, {1, 2}, f32_bytes({3, 4})}};

Result<TransformResult> passed_through(const std::string& name, std::map<std::string, std::string> beside,
                                       std::vector<Operation> operations = {},
                                       uint64_t shard = uint64_t{20} << 30) {
  MemoryModel model;
  for (auto& [file, text] : beside) model.files[file] = text;
  model.files[name] = model_file(kTensors);
  TransformRequest request{.command = "passthrough", .operations = std::move(operations)};
  request.layout.max_shard_size = shard;
  for (const auto& [file, text] : model.files)
    request.folder.push_back({.name = file, .size = text.size(), .unreadable = {}});
  return transform_in_memory(model, model.folder(), std::move(request));
}

bool holds(const Result<TransformResult>& result, const std::string& name) {
  INFO((result.ok() ? "" : result.error().message));
  REQUIRE(result.ok());
  return result->files.count(name) == 1;
}

Operation rename_rule(const std::string& pattern, const std::string& replacement) {
  return {"rename", {{"rule", {pattern, replacement}}}};
}

}  // namespace

TEST_CASE("an adapter stays one file of its name, a part of a pipeline keeps its stem") {
  const auto adapter = passed_through("adapter_model.safetensors", {{"adapter_config.json", "{}"}}, {}, 1);
  CHECK(holds(adapter, "adapter_model.safetensors"));
  CHECK_FALSE(holds(adapter, "model.safetensors.index.json"));
  const auto part = passed_through("diffusion_pytorch_model.safetensors", {{"config.json", "{}"}}, {}, 1);
  CHECK(holds(part, "diffusion_pytorch_model-00001-of-00002.safetensors"));
  CHECK(holds(part, "diffusion_pytorch_model-00002-of-00002.safetensors"));
  CHECK(holds(part, "diffusion_pytorch_model.safetensors.index.json"));
  const auto model = passed_through("any.safetensors", {}, {}, 1);
  CHECK(holds(model, "model-00001-of-00002.safetensors"));
  CHECK(holds(model, "model.safetensors.index.json"));
}

TEST_CASE("lists of modules are renamed with their tensors, and what cannot follow is named") {
  const std::string config =
      R"({"quantization_config": {"ignore": ["a.b.q", "re:a.*", "a.b.none", "other"], "bits": 4,
  "block_name_to_quantize": "a.b", "extra_config": {"a.b.v": {"bits": 1.50}, "a.*": {}}}})";
  const auto result =
      passed_through("model.safetensors", {{"config.json", config}}, {rename_rule("^a\\.b", "x")});
  REQUIRE(holds(result, "config.json"));
  CHECK(result->files.at("config.json") ==
        R"({"quantization_config": {"ignore": ["x.q", "re:a.*", "x.none", "other"], "bits": 4,
  "block_name_to_quantize": "x", "extra_config": {"x.v": {"bits": 1.50}, "a.*": {}}}})");
  const auto warned = [&](const Result<TransformResult>& of, const std::string& entry) {
    return std::any_of(of->account.warnings.begin(), of->account.warnings.end(),
                       [&](const std::string& warning) { return warning.find(entry) != std::string::npos; });
  };
  CHECK(warned(result, "re:a.*"));
  CHECK(warned(result, "\"a.*\""));
  CHECK_FALSE(warned(result, "other"));
  // Tensors of one module that go different ways.
  const std::string parent = R"({"quantization_config": {"ignore": ["a.b"]}})";
  const auto split =
      passed_through("model.safetensors", {{"config.json", parent}}, {rename_rule("^a\\.b\\.q", "x.q")});
  REQUIRE(split.ok());
  CHECK(warned(split, "\"a.b\""));
  // Nothing is renamed: not a byte is touched, whatever the file is.
  CHECK(passed_through("model.safetensors", {{"config.json", "{ no JSON"}}).ok());
  CHECK(passed_through("model.safetensors", {{"config.json", "{ no JSON"}}, {rename_rule("^zz", "y")}).ok());
}
