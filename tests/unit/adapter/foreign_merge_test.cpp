// Adapters of other families than PEFT's, merged into bases that name their modules in one way or the other.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tftf/adapter/merge.h"

namespace foreign_cases {

using namespace tftf;

namespace {

NamedTensor f32_named(std::string name, Shape shape, const std::vector<float>& values) {
  NamedTensor tensor{std::move(name), {DType::F32, std::move(shape), {}}};
  tensor.data.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.data.bytes.data(), values.data(), tensor.data.bytes.size());
  return tensor;
}

// Rank 1, alpha 0.5: s is a half. Down 1 x 2, up `out` x 1.
std::vector<NamedTensor> flat_module(const std::string& module, uint64_t out) {
  return {f32_named(module + ".lora_down.weight", {1, 2}, {1, 2}),
          f32_named(module + ".lora_up.weight", {out, 1}, std::vector<float>(static_cast<size_t>(out), 1)),
          f32_named(module + ".alpha", {}, {0.5f})};
}

struct Base {
  explicit Base(std::vector<std::pair<std::string, Shape>> tensors) : named(std::move(tensors)) {
    for (const auto& [name, shape] : named) views.push_back({name, DType::F32, &shape});
  }
  std::vector<std::pair<std::string, Shape>> named;
  std::vector<TensorView> views;
};

Result<MergeResolution> merged(std::vector<NamedTensor> tensors, const Base& base, Metadata metadata = {}) {
  auto adapter =
      make_adapter("a", "a.safetensors", std::move(tensors), std::nullopt, {}, std::move(metadata));
  if (!adapter) return std::move(adapter).error();
  return resolve_merge(*adapter, base.views, {}, {});
}

const std::string kSgm = "input_blocks_1_1_transformer_blocks_0_attn1_to_q";
const std::string kInner = ".transformer_blocks.0.attn1.to_q.weight";

}  // namespace

TEST_CASE("kohya's names meet the names of the original and of diffusers") {
  for (const std::string& name :
       {"model.diffusion_model.input_blocks.1.1" + kInner, "down_blocks.0.attentions.0" + kInner,
        "unet.down_blocks.0.attentions.0" + kInner}) {
    INFO(name);
    const Base base({{"other.weight", {3, 2}}, {name, {3, 2}}});
    const auto resolution = merged(flat_module("lora_unet_" + kSgm, 3), base);
    REQUIRE(resolution.ok());
    REQUIRE(resolution->changes.size() == 1);
    CHECK(resolution->changes[0].base == 1);
    CHECK(resolution->changes[0].program->scale == 0.5);
  }
}

TEST_CASE("a fused layer is merged into the parts of a base that has them") {
  std::vector<std::pair<std::string, Shape>> parts;
  for (const char* part : {"to_q", "to_k", "to_v"})
    parts.push_back({std::string("transformer_blocks.0.attn.") + part + ".weight", {2, 2}});
  const auto resolution = merged(flat_module("lora_unet_double_blocks_0_img_attn_qkv", 6), Base(parts));
  REQUIRE(resolution.ok());
  CHECK(resolution->changes.size() == 3);
}

TEST_CASE("models of a pipeline that the base is not are left out, and said to be") {
  std::vector<NamedTensor> both = flat_module("lora_unet_conv_in", 3);
  for (NamedTensor& tensor : flat_module("lora_te_text_model_encoder_layers_0_mlp_fc1", 3))
    both.push_back(std::move(tensor));
  const Base base({{"conv_in.weight", {3, 2}}});
  const auto resolution = merged(both, base);
  REQUIRE(resolution.ok());
  CHECK(resolution->changes.size() == 1);
  const bool told = std::any_of(
      resolution->notices.begin(), resolution->notices.end(),
      [](const std::string& one) { return one.find("text_encoder are left out") != std::string::npos; });
  CHECK(told);
}

TEST_CASE("a module that the base lacks is refused") {
  std::vector<NamedTensor> both = flat_module("lora_unet_conv_in", 3);
  for (NamedTensor& tensor : flat_module("lora_unet_conv_out", 3)) both.push_back(std::move(tensor));
  const auto resolution = merged(both, Base({{"conv_in.weight", {3, 2}}}));
  REQUIRE_FALSE(resolution.ok());
  CHECK(resolution.error().code == ErrorCode::kRefusedUnmatched);
  CHECK(resolution.error().message.find("lora_unet_conv_out") != std::string::npos);
}

TEST_CASE("a scale in the metadata of diffusers counts") {
  std::vector<NamedTensor> pair = {f32_named("transformer.a.b.lora_A.weight", {1, 2}, {1, 2}),
                                   f32_named("transformer.a.b.lora_B.weight", {3, 1}, {1, 1, 1})};
  const Base base({{"a.b.weight", {3, 2}}});
  const auto plain = merged(pair, base);
  REQUIRE(plain.ok());
  CHECK(plain->changes[0].program->scale == 1);
  const auto scaled =
      merged(pair, base, {{"lora_adapter_metadata", R"({"transformer.r": 1, "transformer.lora_alpha": 4})"}});
  REQUIRE(scaled.ok());
  CHECK(scaled->changes[0].program->scale == 4);
}

}  // namespace foreign_cases
