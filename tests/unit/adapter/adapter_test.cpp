// Putting adapters together: families, ranks, fingerprints.
#include <catch2/catch.hpp>

#include "adapter_host.h"
#include "tftf/adapter/merge.h"

using namespace tftf;
using namespace tftf::test;

namespace {

NamedTensor named(const std::string& name, Shape shape, const std::vector<float>& values) {
  const std::string text = f32_bytes(values);
  const Bytes bytes = as_bytes(text);
  return {name, {DType::F32, std::move(shape), {bytes.begin(), bytes.end()}}};
}

std::vector<float> counting(size_t count, float first) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

const std::string kConfig = R"({"peft_type":"LORA","r":2,"lora_alpha":2})";

Result<std::shared_ptr<const Adapter>> sharded(std::vector<std::vector<NamedTensor>> ranks, uint32_t dim) {
  std::vector<std::string> files;
  for (size_t r = 0; r < ranks.size(); ++r) files.push_back("rank_" + std::to_string(r) + ".safetensors");
  return make_sharded_adapter("dir", files, std::move(ranks), dim,
                              AdapterConfigText{"adapter_config.json", kConfig}, {});
}

}  // namespace

TEST_CASE("names of other families are known as such, and those that no base can place are refused") {
  const auto of = [](const std::string& name) {
    return make_adapter("a", "a.safetensors", {named(name, {1}, {1})}, std::nullopt, {});
  };
  for (const char* ours : {"base_model.model.q.lora_A.weight", "q.lora_A.default.weight", "q.lora_A",
                           "base_model.model.double_blocks.0.q.lora_A.weight"}) {
    REQUIRE(of(ours).ok());
    CHECK_FALSE((*of(ours))->foreign);
  }
  for (const char* other :
       {"q.lora_a", "lora_unet_q.lora_down.weight", "unet.q.lora_A.weight", "transformer.q.lora_A.weight"}) {
    INFO(other);
    REQUIRE(of(other).ok());
    CHECK((*of(other))->foreign);
  }
  for (const char* positional : {"w_a_001", "unet:3:up"}) {
    const auto adapter = of(positional);
    REQUIRE_FALSE(adapter.ok());
    CHECK(adapter.error().code == ErrorCode::kRefusedUnsupported);
  }
  // With PEFT's configuration beside them, names that begin like those of diffusers are the model's own.
  CHECK(make_adapter("a", "a", {named("transformer.h.0.lora_A.weight", {1}, {1})},
                     AdapterConfigText{"adapter_config.json", kConfig}, {})
            .ok());
}

TEST_CASE("an adapter has tensors, each name once, and a configuration that can be read") {
  CHECK_FALSE(make_adapter("a", "a", {}, std::nullopt, {}).ok());
  CHECK_FALSE(make_adapter("a", "a", {named("x", {1}, {1}), named("x", {1}, {1})}, std::nullopt, {}).ok());
  const auto broken = make_adapter("a", "a", {named("x", {1}, {1})}, AdapterConfigText{"c.json", "{"}, {});
  REQUIRE_FALSE(broken.ok());
  CHECK(broken.error().code == ErrorCode::kRefusedConfig);
  CHECK(broken.error().file == "c.json");
}

TEST_CASE("the fingerprint of an adapter follows its contents, not its place") {
  const auto of = [](float value, const std::string& config, const std::string& file) {
    return (*make_adapter(file, file, {named("q.lora_A", {1}, {value})}, AdapterConfigText{"c", config}, {}))
        ->fingerprint;
  };
  CHECK(of(1, kConfig, "a") == of(1, kConfig, "b"));
  CHECK(of(1, kConfig, "a") != of(2, kConfig, "a"));
  CHECK(of(1, kConfig, "a") != of(1, R"({"peft_type":"LORA","r":2,"lora_alpha":4})", "a"));
}

TEST_CASE("ranks are joined along a dimension in their order") {
  const auto rows = sharded({{named("_fsdp_wrapped_module.q.lora_A.weight", {1, 2}, {1, 2})},
                             {named("q.lora_A.weight", {2, 2}, {3, 4, 5, 6})},
                             {named("q.lora_A.weight", {0, 2}, {})}},
                            0);
  REQUIRE(rows.ok());
  const TensorData* a = (*rows)->find("q.lora_A.weight");
  REQUIRE(a != nullptr);
  CHECK(a->shape == Shape{3, 2});
  CHECK(as_text(a->bytes) == f32_bytes({1, 2, 3, 4, 5, 6}));
  const auto columns = sharded(
      {{named("q.lora_A.weight", {2, 1}, {1, 2})}, {named("q.lora_A.weight", {2, 2}, {3, 4, 5, 6})}}, 1);
  REQUIRE(columns.ok());
  CHECK(as_text((*columns)->find("q.lora_A.weight")->bytes) == f32_bytes({1, 3, 4, 2, 5, 6}));
}

TEST_CASE("ranks that do not go together are refused") {
  const auto code = [](std::vector<std::vector<NamedTensor>> ranks, uint32_t dim = 0) {
    const auto adapter = sharded(std::move(ranks), dim);
    REQUIRE_FALSE(adapter.ok());
    return adapter.error().code;
  };
  const NamedTensor a = named("q.lora_A.weight", {1, 2}, {1, 2}),
                    b = named("q.lora_B.weight", {1, 2}, {1, 2});
  CHECK(code({{a, b}, {a}}) == ErrorCode::kRefusedMissing);
  CHECK(code({{a}, {a, b}}) == ErrorCode::kRefusedMissing);
  CHECK(code({{a}, {named("q.lora_A.weight", {1, 3}, {1, 2, 3})}}) == ErrorCode::kRefusedShape);
  CHECK(code({{a}, {named("q.lora_A.weight", {1, 2}, {5, 6})}}, 2) == ErrorCode::kRefusedShape);
  CHECK(code({{named("_flat_param", {2}, {1, 2})}}) == ErrorCode::kRefusedUnsupported);
  CHECK(code({{a, named("module.q.lora_A.weight", {1, 2}, {1, 2})}}) == ErrorCode::kRefusedCollision);
}

TEST_CASE("a tensor that all ranks hold alike is taken once where it fits only so") {
  const Shape weight{6, 5};
  const TensorView base{"q.weight", DType::F32, &weight};
  // A is replicated (2 x 5), B is sharded in two halves of 3 rows.
  const NamedTensor a = named("q.lora_A.weight", {2, 5}, counting(10, 0));
  const auto adapter = sharded({{a, named("q.lora_B.weight", {3, 2}, counting(6, 0))},
                                {a, named("q.lora_B.weight", {3, 2}, counting(6, 10))}},
                               0);
  REQUIRE(adapter.ok());
  const auto resolved = resolve_merge(*adapter, {&base, 1}, {}, {});
  INFO((resolved.ok() ? "" : resolved.error().message));
  REQUIRE(resolved.ok());
  REQUIRE(resolved->changes.size() == 1);
  CHECK(resolved->changes[0].program->right.rows == 2);
  CHECK_FALSE(resolved->notices.empty());
}
