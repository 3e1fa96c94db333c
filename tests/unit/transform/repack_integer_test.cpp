// repack among GPTQ and AWQ: codes, zero points and scales bit by bit, and what has no place in the other container.
#include <algorithm>
#include <catch2/catch.hpp>

#include "data_file.h"
#include "qweight_models.h"
#include "tftf/base/json_text.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> repack(const MemoryModel& model, const std::string& to,
                               uint64_t tile = kDefaultTileBytes) {
  TransformRequest request{
      .command = "repack", .operations = {{.id = "repack", .options = {{"to", {to}}}}}, .tile_bytes = tile};
  return transform_in_memory(model, model.folder(), std::move(request), {.seed = 6});
}

MemoryModel as_model_of(const TransformResult& result) {
  MemoryModel model;
  model.files = result.files;
  return model;
}

MemoryModel model_of_modules(const std::vector<QweightModule>& modules) {
  std::vector<TestTensor> tensors;
  for (size_t i = 0; i < modules.size(); ++i) {
    for (TestTensor& tensor : tensors_of_module(modules[i], "l." + std::to_string(i) + ".q"))
      tensors.push_back(std::move(tensor));
  }
  tensors.push_back({"norm.weight", DType::F32, {4}, f32_bytes({1, 2, 3, 4})});
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = "{\"quantization_config\": " + section_of(modules[0]) + "}";
  return model;
}

void check_module(const TransformResult& result, QweightModule want, const std::string& packing,
                  const std::string& name = "l.0.q") {
  const auto got =
      read_module(result_tensors(result), name, packing, want.bits, want.outputs, want.inputs, want.group);
  CHECK((got.codes == want.codes));
  CHECK((got.zeros == want.zeros));
  CHECK((got.scales == want.scales));
  if (packing != "awq-gemm") CHECK((got.index == want.index));
}

}  // namespace

TEST_CASE("reference files of repack, whatever the tiles") {
  const std::pair<const char*, const char*> cases[] = {{"repack-gptq-v1-to-awq", "awq"},
                                                       {"repack-gptq-sym-to-awq", "awq"},
                                                       {"repack-awq-to-gptq", "gptq"},
                                                       {"repack-awq-to-gptq-v2", "gptq-v2"}};
  for (const auto& [id, to] : cases) {
    INFO(id);
    const std::string folder = "/golden/quant/" + std::string(id) + "/";
    MemoryModel model;
    for (const char* name : {"model.safetensors", "config.json"})
      model.files[name] = tftf_test::read_data(folder + name);
    for (const uint64_t tile : {uint64_t{1}, uint64_t{700}, kDefaultTileBytes}) {
      const auto result = repack(model, to, tile);
      INFO((result ? "" : result.error().message));
      REQUIRE(result.ok());
      const auto got = result_tensors(*result);
      const auto want = tensors_of(tftf_test::read_data(folder + "expected.safetensors"));
      REQUIRE(got.size() == want.size());
      for (const TestTensor& tensor : want) {
        INFO(tensor.name);
        REQUIRE(got.count(tensor.name) == 1);
        CHECK(got.at(tensor.name).dtype == tensor.dtype);
        CHECK(got.at(tensor.name).shape == tensor.shape);
        CHECK((got.at(tensor.name).bytes == tensor.bytes));
      }
    }
  }
  const std::pair<const char*, std::pair<const char*, const char*>> refusals[] = {
      {"repack-awq-z0-to-gptq", {"gptq", "gptq-v2 can hold it"}},
      {"repack-gptq-actorder-to-awq", {"awq", "act-order"}}};
  for (const auto& [id, expected] : refusals) {
    INFO(id);
    const std::string folder = "/golden/quant/" + std::string(id) + "/";
    MemoryModel model;
    for (const char* name : {"model.safetensors", "config.json"})
      model.files[name] = tftf_test::read_data(folder + name);
    const auto refused = repack(model, expected.first);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("up_proj") != std::string::npos);
    CHECK(refused.error().message.find(expected.second) != std::string::npos);
  }
}

TEST_CASE("there and back again gives the same bytes, and every stop the same weights") {
  const QweightModule module = random_module("gptq-v1", 4, 72, 160, 32, 3);
  const MemoryModel source = model_of_modules({module});
  MemoryModel at = source;
  for (const char* to : {"awq-gemm", "gptq-v2", "gptq-v1", "gptq-v2", "awq-gemm", "gptq-v1"}) {
    INFO(to);
    const auto next = repack(at, to, 2000);
    INFO((next ? "" : next.error().message));
    REQUIRE(next.ok());
    check_module(*next, module, to);
    CHECK(next->account.left_quantised == 1);
    at = as_model_of(*next);
    const Operation dequant{.id = "dequant", .options = {{"dtype", {"float32"}}}};
    const auto plain = transform_in_memory(at, {dequant});
    REQUIRE(plain.ok());
    CHECK((result_tensors(*plain).at("l.0.q.weight").bytes == f32_bytes(weight_of(module))));
  }
  const auto original = tensors_of(source.files.at("model.safetensors"));
  std::map<std::string, TestTensor> returned;
  for (const auto& [name, file] : at.files)
    if (name.find(".safetensors") != std::string::npos && name.find(".json") == std::string::npos)
      for (TestTensor& tensor : tensors_of(file)) returned[tensor.name] = std::move(tensor);
  REQUIRE(returned.size() == original.size());
  for (const TestTensor& tensor : original) {
    INFO(tensor.name);
    CHECK(returned.at(tensor.name).shape == tensor.shape);
    CHECK((returned.at(tensor.name).bytes == tensor.bytes));
  }
}

TEST_CASE("between versions of GPTQ every width and order stays") {
  for (const uint32_t bits : {2u, 3u, 4u, 8u}) {
    INFO(bits);
    QweightModule module = random_module("gptq-v2", bits, 32, 160, 48, bits);
    for (size_t k = 0; k < module.index.size(); ++k)
      module.index[k] = static_cast<uint32_t>(k * 5 % module.groups());
    const auto there = repack(model_of_modules({module}), "gptq-v1", 500);
    INFO((there ? "" : there.error().message));
    REQUIRE(there.ok());
    check_module(*there, module, "gptq-v1");
    const OrderedJson section = OrderedJson::parse(there->files.at("config.json"))["quantization_config"];
    CHECK(section["bits"] == bits);
    CHECK(section["group_size"] == 48);
    CHECK(section["desc_act"] == true);
    const auto back = repack(as_model_of(*there), "gptq-v2");
    REQUIRE(back.ok());
    check_module(*back, module, "gptq-v2");
  }
}

TEST_CASE("what has no place is refused with the property that has none") {
  const auto refusal = [](const std::vector<QweightModule>& modules, const std::string& to) {
    const auto result = repack(model_of_modules(modules), to);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("l.") != std::string::npos);
    return result.error().message;
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(holds(refusal({random_module("gptq-v1", 8, 32, 64, 32, 1)}, "awq"), "8 bits, not 4"));
  CHECK(holds(refusal({random_module("gptq-v1", 4, 32, 96, 64, 1)}, "awq"), "groups of 64"));
  CHECK(holds(refusal({random_module("awq-gemm", 4, 32, 20, 20, 1)}, "gptq"), "no multiple of 8"));
  QweightModule zero = random_module("gptq-v2", 4, 32, 64, 32, 1);
  zero.zeros[1][31] = 0;
  CHECK(holds(refusal({zero}, "gptq-v1"), "gptq-v2 can hold it"));
  QweightModule ordered = random_module("gptq-v1", 4, 32, 64, 32, 1);
  std::swap(ordered.index[0], ordered.index[63]);
  CHECK(holds(refusal({ordered}, "awq"), "act-order"));
  CHECK(
      holds(refusal({random_module("gptq-v1", 4, 32, 64, 32, 1), random_module("gptq-v1", 4, 32, 128, 64, 2)},
                    "awq"),
            "32 and 64"));
  MemoryModel plain;
  plain.files["model.safetensors"] = scalar_file({"a"});
  const auto nothing = repack(plain, "awq");
  REQUIRE_FALSE(nothing.ok());
  CHECK(holds(nothing.error().message, "gptq-v1, gptq-v2 is needed"));
}

TEST_CASE("modules that differ are told to GPTQ's loaders, and missing zero points are made") {
  const QweightModule one = random_module("gptq-v1", 4, 32, 64, 32, 1),
                      two = random_module("gptq-v1", 8, 32, 64, 64, 2);
  const auto mixed = repack(model_of_modules({one, two}), "gptq-v2");
  REQUIRE(mixed.ok());
  const OrderedJson section = OrderedJson::parse(mixed->files.at("config.json"))["quantization_config"];
  CHECK(section["bits"] == 4);
  CHECK(section["dynamic"]["+:^l\\.1\\.q$"]["bits"] == 8);
  CHECK(section["dynamic"]["+:^l\\.1\\.q$"]["group_size"] == -1);
  check_module(*mixed, two, "gptq-v2", "l.1.q");

  QweightModule symmetric = random_module("awq-gemm", 4, 32, 64, 32, 4);
  for (auto& row : symmetric.zeros) std::fill(row.begin(), row.end(), 8u);
  MemoryModel without = model_of_modules({symmetric});
  std::vector<TestTensor> tensors = tensors_of(without.files["model.safetensors"]);
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                               [](const TestTensor& tensor) { return tensor.name == "l.0.q.qzeros"; }),
                tensors.end());
  without.files["model.safetensors"] = model_file(tensors);
  without.files["config.json"] =
      R"({"quantization_config": {"quant_method": "awq", "version": "gemm", "zero_point": false, "bits": 4, "group_size": 32}})";
  without.files["quant_config.json"] = R"({"w_bit": 4, "q_group_size": 32, "version": "GEMM"})";
  for (const MemoryModel& model : {model_of_modules({symmetric}), without}) {
    for (const char* to : {"gptq-v1", "gptq-v2"}) {
      const auto result = repack(model, to, 100);
      INFO((result ? "" : result.error().message));
      REQUIRE(result.ok());
      QweightModule want = symmetric;
      for (uint64_t k = 0; k < want.inputs; ++k) want.index[k] = static_cast<uint32_t>(k / 32);
      check_module(*result, want, to);
      CHECK(OrderedJson::parse(result->files.at("config.json"))["quantization_config"]["sym"] == true);
      CHECK(std::count(result->copied.begin(), result->copied.end(), "quant_config.json") == 0);
    }
  }
}
