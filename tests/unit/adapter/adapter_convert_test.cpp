// Conversions between families: names, scales, query, key and value split and joined, and what is refused.
#include "tftf/adapter/convert.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "header_model.h"

namespace convert_cases {

using namespace tftf;
using Json = nlohmann::json;

namespace {

using Values = std::vector<float>;

std::string f32_data(const Values& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
HeaderTensor f32_tensor(std::string name, Shape shape, const Values& values) {
  return {std::move(name), DType::F32, std::move(shape), f32_data(values)};
}
// 1, 2, 3 … so that every element is its own.
Values counted_values(uint64_t count, float first = 1) {
  Values values(static_cast<size_t>(count));
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

using Tensors = std::vector<HeaderTensor>;
Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tensors factors(const std::string& down, const std::string& up, uint64_t rank, uint64_t in, uint64_t out) {
  return {f32_tensor(down, {rank, in}, counted_values(rank * in)),
          f32_tensor(up, {out, rank}, counted_values(out * rank, 100))};
}
Tensors kohya_pair(const std::string& module, uint64_t rank, uint64_t in, uint64_t out, float alpha) {
  return factors(module + ".lora_down.weight", module + ".lora_up.weight", rank, in, out) +
         Tensors{f32_tensor(module + ".alpha", {}, {alpha})};
}
Tensors peft_pair(const std::string& module, uint64_t rank = 2, uint64_t in = 4, uint64_t out = 6) {
  return factors(module + ".lora_A.weight", module + ".lora_B.weight", rank, in, out);
}

struct Converted {
  std::map<std::string, std::pair<Shape, Values>> tensors;
  std::map<std::string, std::string> sides;
  AdapterConversion whole;
};

Result<AdapterConversion> conversion(const HeaderModel& model, const AdapterConvertOptions& options) {
  SmallValues values(model.checkpoint());
  ValueScans scans(model.checkpoint());
  while (true) {
    auto made = convert_adapter(model.checkpoint(), values, scans, options);
    if (!made) return std::move(made).error();
    if (*made) return **std::move(made);
    const bool small = model.serve(values), whole = model.serve(scans);
    REQUIRE((small || whole));
  }
}

Converted convert(const HeaderModel& model, const AdapterConvertOptions& options) {
  Result<AdapterConversion> made = conversion(model, options);
  INFO((made.ok() ? "" : made.error().message));
  REQUIRE(made.ok());
  Converted out;
  for (auto& file : made->files)
    for (AdapterRecipe& recipe : file.tensors) {
      number_sources(recipe);
      std::string bytes(static_cast<size_t>(recipe.rows * recipe.cols * sizeof(float)), '\0');
      if (recipe.literal) {
        bytes = *recipe.literal;
      } else if (const auto copied = recipe.copy_of(model.checkpoint())) {
        bytes = model.bytes_of(*copied);
      } else {
        std::vector<std::string> data;
        for (const TensorRef source : recipe_sources(recipe)) data.push_back(model.bytes_of(source));
        std::vector<Bytes> sources;
        for (const std::string& one : data) sources.push_back(as_bytes(one));
        cook_rows(recipe, sources, 0, recipe.rows, reinterpret_cast<std::byte*>(bytes.data()));
      }
      Values values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
      out.tensors[file.name + ":" + recipe.name] = {recipe.shape, values};
    }
  for (const auto& [name, text] : made->sides) out.sides[name] = text;
  out.whole = *std::move(made);
  return out;
}

// The names alone, without the file's.
std::vector<std::string> names_of(const Converted& converted) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : converted.tensors) names.push_back(name.substr(name.find(':') + 1));
  return names;
}

std::string refusal(const HeaderModel& model, const AdapterConvertOptions& options) {
  const Result<AdapterConversion> made = conversion(model, options);
  REQUIRE_FALSE(made.ok());
  return made.error().message;
}

const std::string kAttention = "down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
const std::string kPeftConfig =
    R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q"], "use_rslora": false})";

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("kohya's names become PEFT's, with the scale in the configuration") {
  const HeaderModel model(kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1));
  const Converted made = convert(model, {.to = AdapterTarget::kPeft});
  const std::string name = "base_model.model.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q";
  CHECK(names_of(made) == std::vector<std::string>{name + ".lora_A.weight", name + ".lora_B.weight"});
  const Json config = Json::parse(made.sides.at("adapter_config.json"));
  CHECK(config["r"] == 2);
  CHECK(config["lora_alpha"] == 1);
  CHECK(config["target_modules"] == Json::array({name.substr(17)}));
  CHECK(made.whole.mapped == 3);
  CHECK(made.whole.unmapped.empty());
}

TEST_CASE("a rank and an alpha of their own stand in patterns that match nothing else") {
  const HeaderModel model(kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1) +
                          kohya_pair("lora_unet_mid_block_resnets_0_conv1", 2, 4, 6, 1) +
                          kohya_pair("lora_unet_mid_block_attentions_0_proj_in", 3, 4, 6, 1.5f));
  const Json config = Json::parse(convert(model, {}).sides.at("adapter_config.json"));
  CHECK(config["rank_pattern"] == Json{{"mid_block\\.attentions\\.0\\.proj_in$", 3}});
  CHECK(config["alpha_pattern"] == Json{{"mid_block\\.attentions\\.0\\.proj_in$", 1.5}});
}

TEST_CASE("PEFT's scale becomes an alpha per module") {
  HeaderModel model(peft_pair("base_model.model.mid_block.attentions.0.proj_in"));
  model.add_side_file("adapter_config.json",
                      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_rslora": true})");
  const Converted made = convert(model, {.to = AdapterTarget::kKohya});
  const std::string name = "adapter.safetensors:lora_unet_mid_block_attentions_0_proj_in";
  CHECK(made.tensors.at(name + ".alpha").second[0] == Approx(4 * std::sqrt(2.0)));
  CHECK(made.tensors.at(name + ".lora_down.weight").second == counted_values(8));
}

TEST_CASE("diffusers' files have the scale in both factors where it is a power of two") {
  const HeaderModel model(kohya_pair("lora_unet_" + kAttention, 4, 2, 2, 1));  // s = 1/4
  const Converted made = convert(model, {.to = AdapterTarget::kDiffusers});
  const std::string name =
      "pytorch_lora_weights.safetensors:unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q";
  CHECK(made.tensors.at(name + ".lora_A.weight").second[0] == 0.5f);
  CHECK(made.tensors.at(name + ".lora_B.weight").second[0] == 50.0f);
}

TEST_CASE("a fused Flux layer is split by rows, and joined again to the same bytes") {
  // Two inputs, up factor block-diagonal: each part has its own rank row.
  const HeaderModel model(
      {f32_tensor("lora_unet_double_blocks_3_img_attn_qkv.lora_down.weight", {3, 2}, {1, 2, 3, 4, 5, 6}),
       f32_tensor("lora_unet_double_blocks_3_img_attn_qkv.lora_up.weight", {6, 3},
                  {1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 5, 0, 0, 6}),
       f32_tensor("lora_unet_double_blocks_3_img_attn_qkv.alpha", {}, {3})});
  const Converted made = convert(model, {.to = AdapterTarget::kDiffusers});
  const std::string part = "pytorch_lora_weights.safetensors:transformer.transformer_blocks.3.attn.";
  CHECK(made.tensors.at(part + "to_k.lora_A.weight") == std::pair<Shape, Values>({1, 2}, {3, 4}));
  CHECK(made.tensors.at(part + "to_k.lora_B.weight") == std::pair<Shape, Values>({2, 1}, {3, 4}));

  Tensors split;
  for (const auto& [name, tensor] : made.tensors)
    split.push_back(f32_tensor(name.substr(name.find(':') + 1), tensor.first, tensor.second));
  const Converted back = convert(HeaderModel(split), {.to = AdapterTarget::kKohya, .base_family = "flux.1"});
  const std::string fused = "adapter.safetensors:lora_unet_double_blocks_3_img_attn_qkv";
  CHECK(back.tensors.at(fused + ".lora_down.weight").second == Values{1, 2, 3, 4, 5, 6});
  CHECK(back.tensors.at(fused + ".lora_up.weight").second ==
        Values{1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 5, 0, 0, 6});
  CHECK(back.tensors.at(fused + ".alpha").second == Values{3});
}

TEST_CASE("a dense up factor gives every part the whole down factor") {
  const HeaderModel model(kohya_pair("lora_unet_double_blocks_3_img_attn_qkv", 3, 2, 6, 3));
  const Converted made = convert(model, {.to = AdapterTarget::kDiffusers});
  const std::string part = "pytorch_lora_weights.safetensors:transformer.transformer_blocks.3.attn.to_v";
  CHECK(made.tensors.at(part + ".lora_A.weight").second == counted_values(6));
  CHECK(made.tensors.at(part + ".lora_B.weight").second == counted_values(6, 112));
}

TEST_CASE("parts with one down factor keep the rank, missing parts are zero rows") {
  const std::string block = "transformer.transformer_blocks.4.attn.";
  const HeaderModel model(peft_pair(block + "to_q", 2, 4, 4) + peft_pair(block + "to_v", 2, 4, 4));
  const Converted made = convert(model, {.to = AdapterTarget::kKohya, .base_family = "flux.1"});
  const std::string fused = "adapter.safetensors:lora_unet_double_blocks_4_img_attn_qkv";
  CHECK(made.tensors.at(fused + ".lora_down.weight").first == Shape{2, 4});
  const auto& [shape, up] = made.tensors.at(fused + ".lora_up.weight");
  CHECK(shape == Shape{12, 2});
  CHECK(Values(up.begin() + 8, up.begin() + 16) == Values(8, 0));
  CHECK(up[16] == 100);
}

TEST_CASE("names of several models are not guessed") {
  const HeaderModel model(peft_pair("transformer.transformer_blocks.4.attn.to_q", 2, 4, 4));
  CHECK(says(refusal(model, {.to = AdapterTarget::kKohya}), "--base-family"));
  CHECK(conversion(model, {.to = AdapterTarget::kKohya, .base_family = "flux.1"}).ok());
}

TEST_CASE("the final modulation of Flux has its halves exchanged") {
  const HeaderModel model(kohya_pair("lora_unet_final_layer_adaLN_modulation_1", 1, 2, 4, 1));
  const Converted made = convert(model, {.to = AdapterTarget::kDiffusers});
  CHECK(
      made.tensors.at("pytorch_lora_weights.safetensors:transformer.norm_out.linear.lora_B.weight").second ==
      Values{102, 103, 100, 101});
}

TEST_CASE("names of the original UNet become diffusers' and ComfyUI's") {
  const HeaderModel sgm(kohya_pair("lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q", 2, 4, 4, 2) +
                        kohya_pair("lora_unet_output_blocks_2_2_conv", 2, 4, 4, 2));
  CHECK(names_of(convert(sgm, {.to = AdapterTarget::kDiffusers})) ==
        std::vector<std::string>{
            "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight",
            "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.lora_B.weight",
            "unet.up_blocks.0.upsamplers.0.conv.lora_A.weight",
            "unet.up_blocks.0.upsamplers.0.conv.lora_B.weight"});
  const HeaderModel unet(kohya_pair("lora_unet_up_blocks_0_upsamplers_0_conv", 2, 4, 4, 2));
  CHECK(says(refusal(unet, {.to = AdapterTarget::kComfy}), "SD1, SD2 and SDXL"));
  const Converted sd1 = convert(unet, {.to = AdapterTarget::kComfy, .base_family = "sd1"});
  CHECK(names_of(sd1)[0] == "diffusion_model.output_blocks.2.1.conv.alpha");
}

TEST_CASE("several models of a pipeline are several folders of PEFT") {
  const HeaderModel model(kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1) +
                          kohya_pair("lora_te_text_model_encoder_layers_0_mlp_fc1", 2, 4, 6, 1));
  const Converted made = convert(model, {.to = AdapterTarget::kPeft});
  CHECK(made.sides.count("unet/adapter_config.json") == 1);
  CHECK(made.sides.count("text_encoder/adapter_config.json") == 1);
  CHECK(says(refusal(model, {.to = AdapterTarget::kPeft, .single_name = "a.safetensors"}), "folder"));
}

TEST_CASE("MLX's factors are turned, and it has one scale for all") {
  HeaderModel model(peft_pair("base_model.model.model.layers.0.self_attn.q_proj") +
                    peft_pair("base_model.model.model.layers.1.self_attn.q_proj") +
                    peft_pair("base_model.model.model.layers.2.self_attn.q_proj"));
  model.add_side_file(
      "adapter_config.json",
      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "alpha_pattern": {"layers.2.self_attn.q_proj": 8}})");
  const Converted made = convert(model, {.to = AdapterTarget::kMlx});
  const Json config = Json::parse(made.sides.at("adapter_config.json"));
  CHECK(config["lora_parameters"]["scale"] == 2.0);
  CHECK(config["lora_parameters"]["keys"] == Json::array({"self_attn.q_proj"}));
  const std::string layer = "adapters.safetensors:model.layers.";
  CHECK(made.tensors.at(layer + "0.self_attn.q_proj.lora_a") ==
        std::pair<Shape, Values>({4, 2}, {1, 5, 2, 6, 3, 7, 4, 8}));
  CHECK(made.tensors.at(layer + "0.self_attn.q_proj.lora_b").second[0] == 100);
  CHECK(made.tensors.at(layer + "2.self_attn.q_proj.lora_b").second[0] == 200);
}

TEST_CASE("a scale that nothing says is asked for") {
  const HeaderModel model(peft_pair("base_model.model.mid_block.attentions.0.proj_in"));
  CHECK(says(refusal(model, {.to = AdapterTarget::kKohya}), "--scale S or --alpha A"));
  AdapterConvertOptions options{.to = AdapterTarget::kKohya, .scale = 0.5};
  const std::string alpha = "adapter.safetensors:lora_unet_mid_block_attentions_0_proj_in.alpha";
  CHECK(convert(model, options).tensors.at(alpha).second == Values{1});
  options = {.to = AdapterTarget::kKohya, .alpha = 6.0};
  CHECK(convert(model, options).tensors.at(alpha).second == Values{6});
  HeaderModel known(peft_pair("base_model.model.mid_block.attentions.0.proj_in"));
  known.add_side_file("adapter_config.json", kPeftConfig);
  CHECK(says(refusal(known, options), "is known"));
}

TEST_CASE("magnitudes change their shape, and those of inputs have no place in PEFT") {
  const auto dora = [](Shape shape) {
    return HeaderModel(kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1) +
                       Tensors{f32_tensor("lora_unet_" + kAttention + ".dora_scale", shape,
                                          counted_values(shape[0] * shape[1]))});
  };
  const Converted made = convert(dora({6, 1}), {.to = AdapterTarget::kPeft});
  CHECK(made.tensors
            .at("adapter_model.safetensors:base_model.model.down_blocks.0.attentions.0.transformer_blocks.0."
                "attn1."
                "to_q.lora_magnitude_vector")
            .first == Shape{6});
  CHECK(made.whole.notes.size() == 1);
  CHECK(says(refusal(dora({1, 4}), {.to = AdapterTarget::kPeft}), "along its inputs"));
  CHECK(conversion(dora({1, 4}), {.to = AdapterTarget::kComfy}).ok());
}

TEST_CASE("differences of biases go when they are zero, and are refused otherwise") {
  const auto model = [](float value) {
    return HeaderModel(kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1) +
                       Tensors{f32_tensor("lora_unet_" + kAttention + ".diff_b", {6}, Values(6, value))});
  };
  const Converted made = convert(model(0), {.to = AdapterTarget::kDiffusers});
  CHECK(made.whole.dropped.size() == 1);
  CHECK(says(refusal(model(1), {.to = AdapterTarget::kDiffusers}), "--allow-partial"));
  const Converted partial = convert(model(1), {.to = AdapterTarget::kDiffusers, .allow_partial = true});
  CHECK(partial.whole.unmapped.size() == 1);
  CHECK(partial.whole.mapped == 3);
  CHECK(convert(model(1), {.to = AdapterTarget::kKohya}).whole.mapped == 4);
}

TEST_CASE("what does not fit together is refused") {
  SECTION("two ranks") {
    const HeaderModel model(
        {f32_tensor("lora_unet_" + kAttention + ".lora_down.weight", {2, 4}, counted_values(8)),
         f32_tensor("lora_unet_" + kAttention + ".lora_up.weight", {6, 3}, counted_values(18))});
    CHECK(says(refusal(model, {}), "do not fit"));
  }
  SECTION("a factor alone") {
    const HeaderModel model(
        kohya_pair("lora_unet_" + kAttention, 2, 4, 6, 1) +
        Tensors{f32_tensor("lora_unet_conv_in.lora_down.weight", {2, 4}, counted_values(8))});
    CHECK(says(refusal(model, {}), "lacks its twin"));
  }
  SECTION("a name that no table has") {
    const HeaderModel model(kohya_pair("lora_unet_some_strange_name", 2, 4, 6, 1));
    CHECK(says(refusal(model, {}), "--base MODEL"));
    const HeaderModel base({f32_tensor("some.strange_name.weight", {1, 1}, {0})});
    CHECK(names_of(convert(model, {.base = &base.checkpoint()}))[0] ==
          "base_model.model.some.strange_name.lora_A.weight");
    const HeaderModel two({f32_tensor("some.strange_name.weight", {1, 1}, {0}),
                           f32_tensor("some_strange.name.weight", {1, 1}, {0})});
    CHECK(says(refusal(model, {.base = &two.checkpoint()}), "name of 2 weights"));
  }
  SECTION("two names that become one") {
    HeaderModel model(peft_pair("base_model.model.mid_block.x.y") +
                      peft_pair("base_model.model.mid_block.x_y"));
    model.add_side_file("adapter_config.json", kPeftConfig);
    CHECK_FALSE(conversion(model, {.to = AdapterTarget::kKohya}).ok());
  }
  SECTION("a language model as kohya's") {
    HeaderModel model(peft_pair("base_model.model.model.layers.0.self_attn.q_proj"));
    model.add_side_file("adapter_config.json", kPeftConfig);
    CHECK(says(refusal(model, {.to = AdapterTarget::kKohya}), "no kohya form"));
  }
  SECTION("positional names") {
    const HeaderModel model({f32_tensor("w_a_000", {2, 4}, counted_values(8)),
                             f32_tensor("w_b_000", {6, 2}, counted_values(12))});
    CHECK(says(refusal(model, {}), "counts its modules"));
  }
  SECTION("no adapter") {
    const HeaderModel model({f32_tensor("model.norm.weight", {4}, counted_values(4))});
    CHECK(says(refusal(model, {}), "not an adapter"));
  }
}

TEST_CASE("of a mixed file one half is converted when it is named") {
  const HeaderModel model(kohya_pair("lora_unet_double_blocks_2_img_attn_proj", 2, 4, 4, 2) +
                          peft_pair("transformer.transformer_blocks.2.attn.to_out.0", 2, 4, 4));
  CHECK(says(refusal(model, {.to = AdapterTarget::kDiffusers}), "--from"));
  const Converted made = convert(model, {.to = AdapterTarget::kDiffusers, .from = AdapterFamily::kKohya});
  CHECK(made.whole.mapped == 3);
  CHECK(made.whole.dropped.size() == 2);
}

TEST_CASE("a Tucker form loses its middle factor without changing the product") {
  const HeaderModel model(
      {f32_tensor("lora_unet_mid_block_resnets_0_conv1.lora_down.weight", {2, 1, 1, 1}, {2, 3}),
       f32_tensor("lora_unet_mid_block_resnets_0_conv1.lora_mid.weight", {2, 2, 1, 2},
                  {1, 2, 3, 4, 5, 6, 7, 8}),
       f32_tensor("lora_unet_mid_block_resnets_0_conv1.lora_up.weight", {1, 2, 1, 1}, {1, 1})});
  const Converted made = convert(model, {.to = AdapterTarget::kPeft});
  const auto& [shape, values] =
      made.tensors.at("adapter_model.safetensors:base_model.model.mid_block.resnets.0.conv1.lora_A.weight");
  CHECK(shape == Shape{2, 1, 1, 2});
  // Row p, column x: sum over q of mid[p][q][x] * down[q].
  CHECK(values == Values{1 * 2 + 3 * 3, 2 * 2 + 4 * 3, 5 * 2 + 7 * 3, 6 * 2 + 8 * 3});
}

}  // namespace convert_cases
