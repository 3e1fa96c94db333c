#include "tftf/adapter/survey.h"

#include <catch2/catch.hpp>

#include "header_model.h"

using namespace tftf;

namespace {

std::string f32(float value) { return std::string(reinterpret_cast<const char*>(&value), 4); }

AdapterSurvey survey(const HeaderModel& model) {
  SmallValues values(model.checkpoint());
  AdapterSurvey out = survey_adapter(model.checkpoint(), values);
  while (model.serve(values)) out = survey_adapter(model.checkpoint(), values);
  return out;
}

OrderedJson json_of(const std::vector<HeaderTensor>& tensors, const std::string& config = {},
                    Metadata metadata = {}) {
  HeaderModel model(tensors, {}, std::move(metadata));
  if (!config.empty()) model.add_side_file("adapter_config.json", config);
  return adapter_json(survey(model));
}

// A pair of factors: [rank, in] and [out, rank].
std::vector<HeaderTensor> pair(const std::string& down, const std::string& up, uint64_t rank = 4,
                               uint64_t in = 8, uint64_t out = 6) {
  return {{down, DType::F16, {rank, in}}, {up, DType::F16, {out, rank}}};
}

std::vector<HeaderTensor> kohya(const std::string& module, float alpha, uint64_t rank = 4, uint64_t in = 8,
                                uint64_t out = 6) {
  std::vector<HeaderTensor> tensors =
      pair(module + ".lora_down.weight", module + ".lora_up.weight", rank, in, out);
  tensors.push_back({module + ".alpha", DType::F32, {}, f32(alpha)});
  return tensors;
}

std::vector<HeaderTensor> peft(const std::string& module, uint64_t rank = 4, uint64_t in = 8,
                               uint64_t out = 6) {
  return pair(module + ".lora_A.weight", module + ".lora_B.weight", rank, in, out);
}

std::vector<HeaderTensor> operator+(std::vector<HeaderTensor> a, const std::vector<HeaderTensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("each family is told by its names") {
  struct Case {
    const char* family;
    std::vector<HeaderTensor> tensors;
    const char* scale;
  };
  const std::string attention = "down_blocks.0.attentions.0.transformer_blocks.0.attn1";
  const std::vector<Case> cases = {
      {"peft", peft("base_model.model.model.layers.0.self_attn.q_proj"), "unknown"},
      {"peft-named",
       pair("base_model.model.a.lora_A.default.weight", "base_model.model.a.lora_B.default.weight"),
       "unknown"},
      {"peft-named", pair("a.b.lora_A.my_adapter.weight", "a.b.lora_B.my_adapter.weight"), "unknown"},
      {"peft-bare", peft("blocks.0.attn.proj"), "unknown"},
      {"peft-bare", pair("blocks.0.attn.lora_A", "blocks.0.attn.lora_B"), "unknown"},
      {"diffusers-peft", peft("transformer.transformer_blocks.0.attn.to_q"), "implicit"},
      {"diffusers-peft", peft("unet." + attention + ".to_q") + peft("text_encoder.text_model.a"), "implicit"},
      {"diffusers-old",
       pair("unet." + attention + ".processor.to_q_lora.down.weight",
            "unet." + attention + ".processor.to_q_lora.up.weight"),
       "implicit"},
      {"diffusers-mid",
       pair("unet." + attention + ".to_q.lora.down.weight", "unet." + attention + ".to_q.lora.up.weight"),
       "implicit"},
      {"kohya", kohya("lora_unet_down_blocks_0_proj_in", 2), "alpha"},
      {"kohya", pair("lora_te1_text_model_a.lora_down.weight", "lora_te1_text_model_a.lora_up.weight"),
       "implicit"},
      {"onetrainer", kohya("lora_transformer_single_a", 2) + kohya("lora_te1_text_model_a", 1), "alpha"},
      {"comfy-generic", peft("diffusion_model.blocks.0.q") + kohya("text_encoders.clip_l.transformer.a", 1),
       "alpha"},
      {"wan-fun", kohya("lora_unet__blocks_0_ffn_0", 1), "alpha"},
      {"xlabs",
       pair("double_blocks.0.processor.qkv_lora1.down.weight",
            "double_blocks.0.processor.qkv_lora1.up.weight"),
       "implicit"},
      {"bfl-control",
       peft("double_blocks.0.img_attn.qkv") +
           std::vector<HeaderTensor>{{"double_blocks.0.img_attn.norm.query_norm.scale", DType::F32, {4}}},
       "implicit"},
      {"fal-kontext", peft("base_model.model.double_blocks.0.img_attn.proj"), "unknown"},
      {"hunyuan-old", kohya("Hunyuan_video_I2V_lora_double_blocks_0_a", 1), "alpha"},
      {"mlx",
       {{"model.layers.0.q.lora_a", DType::F32, {8, 4}}, {"model.layers.0.q.lora_b", DType::F32, {4, 6}}},
       "unknown"},
      {"control-lora",
       pair("input_blocks.1.1.proj_in.down", "input_blocks.1.1.proj_in.up") +
           std::vector<HeaderTensor>{{"lora_controlnet", DType::F16, {1}},
                                     {"x.norm.weight", DType::F16, {8}}},
       "implicit"},
      {"cloneofsimo",
       pair("unet:0:down", "unet:0:up") + pair("text_encoder:3:down", "text_encoder:3:up") +
           std::vector<HeaderTensor>{{"<s1>", DType::F32, {8}}},
       "implicit"},
      {"raw-indexed", pair("w_a_000", "w_b_000"), "unknown"},
  };
  std::vector<std::string> seen;
  for (const Case& one : cases) {
    INFO(one.family << " " << one.tensors[0].name);
    const OrderedJson json = json_of(one.tensors);
    CHECK(json["kind"] == "adapter");
    CHECK(json["family"] == one.family);
    CHECK(json["families"] == OrderedJson::array({one.family}));
    CHECK(json["scale"] == one.scale);
    CHECK(json["ambiguous"] == false);
    CHECK(json["unexplained"] == 0);
    CHECK(json["unpaired"].empty());
    for (const auto& [rank, count] : json["ranks"].items()) CHECK(rank == "4");
    CHECK_FALSE(json["evidence"].empty());
    CHECK(find_adapter_family(one.family).has_value());
    seen.emplace_back(one.family);
  }
  for (size_t i = 0; i < kAdapterFamilyCount; ++i) {
    const std::string id(adapter_family_id(static_cast<AdapterFamily>(i)));
    INFO(id);
    CHECK(std::find(seen.begin(), seen.end(), id) != seen.end());
    CHECK(find_adapter_family(id) == static_cast<AdapterFamily>(i));
  }
  CHECK_FALSE(find_adapter_family("lora"));
}

TEST_CASE("words count as whole components only") {
  for (const char* name : {"model.lora_proj.weight", "lora_A.weight", "x.lora_Aweight", "xlora_unet_a.alpha",
                           "w_a_x", "unet:x:down", "unet:1:side", "a.lora_A.b.c.weight"}) {
    INFO(name);
    CHECK(json_of({{name, DType::F32, {4, 4}}})["kind"] == "checkpoint");
  }
  CHECK(json_of({})["kind"] == "unknown");
  CHECK(json_of({{"emb_params", DType::F16, {2, 768}}})["kind"] == "embedding");
  CHECK(json_of({{"<cat>", DType::F32, {1, 768}}})["kind"] == "embedding");
  // An alpha or a magnitude without factors is no adapter.
  CHECK(json_of({{"lora_unet_a.alpha", DType::F32, {}, f32(1)}})["kind"] == "checkpoint");
  CHECK(json_of({{"lora_unet_a.dora_scale", DType::F32, {8, 1}}})["unexplained"] == 1);
}

TEST_CASE("forms, ranks and alphas of modules") {
  auto module = [](std::vector<std::pair<const char*, Shape>> parts) {
    std::vector<HeaderTensor> tensors;
    for (const auto& [part, shape] : parts)
      tensors.push_back({std::string("lora_unet_a.") + part, DType::F32, shape});
    return json_of(tensors);
  };
  struct Case {
    const char* form;
    std::vector<std::pair<const char*, Shape>> parts;
    const char* rank;
  };
  const std::vector<Case> cases = {
      {"lora", {{"lora_down.weight", {4, 8, 3, 3}}, {"lora_up.weight", {6, 4, 1, 1}}}, "4"},
      {"lora",
       {{"lora_down.weight", {4, 8, 1, 1}},
        {"lora_mid.weight", {4, 4, 3, 3}},
        {"lora_up.weight", {6, 4, 1, 1}}},
       "4"},
      {"dora", {{"lora_down.weight", {4, 8}}, {"lora_up.weight", {6, 4}}, {"dora_scale", {6, 1}}}, "4"},
      {"loha",
       {{"hada_w1_a", {6, 2}}, {"hada_w1_b", {2, 8}}, {"hada_w2_a", {6, 2}}, {"hada_w2_b", {2, 8}}},
       "2"},
      {"lokr", {{"lokr_w1", {3, 2}}, {"lokr_w2_a", {4, 5}}, {"lokr_w2_b", {5, 4}}}, "5"},
      {"lokr", {{"lokr_w1_a", {3, 7}}, {"lokr_w1_b", {7, 2}}, {"lokr_w2", {4, 4}}}, "7"},
      {"lokr", {{"lokr_w1", {3, 2}}, {"lokr_w2", {4, 4}}}, nullptr},
      {"glora",
       {{"a1.weight", {4, 8}}, {"a2.weight", {8, 4}}, {"b1.weight", {4, 8}}, {"b2.weight", {8, 4}}},
       nullptr},
      {"oft", {{"oft_blocks", {4, 8, 8}}}, nullptr},
      {"boft", {{"oft_blocks", {2, 4, 8, 8}}}, nullptr},
      {"full", {{"diff", {8, 6}}}, nullptr},
      {"norm", {{"w_norm", {8}}, {"b_norm", {8}}}, nullptr},
      {"set", {{"set_weight", {8}}}, nullptr},
  };
  for (const Case& one : cases) {
    INFO(one.form);
    const OrderedJson json = module(one.parts);
    CHECK(json["forms"] == OrderedJson({{one.form, 1}}));
    CHECK(json["ranks"] == (one.rank ? OrderedJson({{one.rank, 1}}) : OrderedJson::object()));
    CHECK(json["modules"] == 1);
    CHECK(json["unpaired"].empty());
    // Each part of a factored form is needed.
    if (one.parts.size() > 1 && std::string(one.form) != "norm" && std::string(one.form) != "glora") {
      auto less = one.parts;
      less.erase(less.begin());
      CHECK(module(less)["unpaired"].size() == 1);
    }
  }
  const OrderedJson mixed =
      json_of(kohya("lora_unet_a", 0.5f, 4) + kohya("lora_unet_b", 8, 8) + kohya("lora_unet_c", 8, 8));
  CHECK(mixed["ranks"] == OrderedJson({{"4", 1}, {"8", 2}}));
  CHECK(mixed["alphas"] == OrderedJson({{"0.5", 1}, {"8", 2}}));
  // MLX transposes, and stacks experts the other way round.
  const OrderedJson experts =
      json_of({{"m.lora_a", DType::F32, {16, 4, 8}}, {"m.lora_b", DType::F32, {16, 6, 4}}});
  CHECK(experts["ranks"] == OrderedJson({{"4", 1}}));
  CHECK(json_of({{"base_model.model.e.lora_embedding_A", DType::F32, {4, 100}},
                 {"base_model.model.e.lora_embedding_B", DType::F32, {8, 4}}})["ranks"] ==
        OrderedJson({{"4", 1}}));
}

TEST_CASE("where the scale comes from") {
  const std::vector<HeaderTensor> two =
      peft("base_model.model.layers.0.q_proj") + peft("base_model.model.layers.1.v_proj");
  const std::string plain = R"({"peft_type":"LORA","r":4,"lora_alpha":8})";
  CHECK(json_of(two, plain)["scale"] == "config");
  CHECK(json_of(two, plain)["alphas"] == OrderedJson({{"8", 2}}));
  CHECK(json_of(two,
                R"({"peft_type":"LORA","r":4,"lora_alpha":8.0,"alpha_pattern":{"q_proj":2.5,"nothing":1}})")
            ["alphas"] == OrderedJson({{"2.5", 1}, {"8", 1}}));
  CHECK(json_of(two)["scale"] == "unknown");
  CHECK(json_of(two, "", {{"lora_alpha", "16"}})["scale"] == "metadata");
  CHECK(json_of(two, "", {{"ss_network_alpha", "Dynamic"}})["scale"] == "unknown");
  const std::vector<HeaderTensor> diffusers = peft("transformer.a") + peft("text_encoder.b");
  const OrderedJson recorded = json_of(
      diffusers, "", {{"lora_adapter_metadata", R"({"transformer.r":4,"transformer.lora_alpha":6})"}});
  CHECK(recorded["scale"] == "metadata");
  CHECK(recorded["alphas"] == OrderedJson({{"6", 1}}));
  // MLX: the configuration's scale is no alpha.
  const std::vector<HeaderTensor> mlx = {{"m.lora_a", DType::F32, {8, 4}}, {"m.lora_b", DType::F32, {4, 6}}};
  const OrderedJson json =
      json_of(mlx, R"({"fine_tune_type":"lora","lora_parameters":{"rank":4,"scale":10.0,"alpha":16}})");
  CHECK(json["scale"] == "config");
  CHECK(json["alphas"] == OrderedJson::object());
}

TEST_CASE("an unknown peft_type is the form") {
  const OrderedJson one =
      json_of({{"base_model.unilora_theta_d", DType::F32, {23040}}}, R"({"peft_type":"UNILORA","r":4})");
  CHECK(one["kind"] == "adapter");
  CHECK(one["forms"] == OrderedJson({{"unilora", 1}}));
  CHECK(one["ranks"] == OrderedJson({{"4", 1}}));
  const OrderedJson gates = json_of({{"base_model.model.a.finegates_rows", DType::F32, {8}},
                                     {"base_model.model.a.finegates_columns", DType::F32, {8}},
                                     {"base_model.model.b.finegates_rows", DType::F32, {8}},
                                     {"base_model.model.classifier.weight", DType::F32, {8, 8}}},
                                    R"({"peft_type":"FINEGATES"})");
  CHECK(gates["forms"] == OrderedJson({{"finegates", 2}}));
  CHECK(gates["unexplained"] == 0);
}

TEST_CASE("two families in one file are both named, a text encoder's half is none") {
  const OrderedJson mixed =
      json_of(peft("transformer.transformer_blocks.2.attn.to_out.0") +
              kohya("lora_unet_double_blocks_2_img_attn_proj", 2) + kohya("lora_unet_x", 2));
  CHECK(mixed["families"] == OrderedJson::array({"diffusers-peft", "kohya"}));
  CHECK(mixed["family"] == "kohya");
  CHECK(mixed["ambiguous"] == true);
  const OrderedJson halves =
      json_of(pair("unet.a.processor.to_q_lora.down.weight", "unet.a.processor.to_q_lora.up.weight") +
              pair("text_encoder.b.q_proj.lora_linear_layer.down.weight",
                   "text_encoder.b.q_proj.lora_linear_layer.up.weight"));
  CHECK(halves["families"] == OrderedJson::array({"diffusers-old"}));
  const OrderedJson plain =
      json_of(peft("base_model.model.a") +
              std::vector<HeaderTensor>{{"base_model.model.classifier.weight", DType::F32, {2, 8}},
                                        {"other.weight", DType::F32, {2, 8}}});
  CHECK(plain["unexplained"] == 1);
}

TEST_CASE("the base model's family from names and shapes") {
  auto base = [](const std::vector<HeaderTensor>& tensors) { return json_of(tensors)["base_family"]; };
  CHECK(base(kohya("lora_unet_single_blocks_0_linear1", 1, 4, 8, 56)) == "flux.1");
  CHECK(base(kohya("lora_unet_single_blocks_0_linear1", 1, 4, 8, 72)) == "flux.2");
  CHECK(base(kohya("lora_unet_double_blocks_0_img_mlp_0", 1, 4, 8, 32)) == "flux.1");
  CHECK(base(kohya("lora_unet_double_blocks_0_img_mlp_0", 1, 4, 8, 48)) == "flux.2");
  CHECK(base(kohya("lora_unet_double_blocks_0_img_mod_lin", 1)) == "flux.1");
  CHECK(base(kohya("lora_unet_double_blocks_0_img_attn_proj", 1)) == nullptr);
  CHECK(base(peft("diffusion_model.double_blocks.0.img_attn_qkv")) == "hunyuan-video");
  CHECK(base(peft("transformer.single_transformer_blocks.3.attn.to_q")) == "flux.1");
  CHECK(base(kohya("lora_transformer_single_transformer_blocks_3_attn_to_v", 1)) == "flux.1");
  CHECK(base(peft("transformer.single_transformer_blocks.3.norm.linear")) == nullptr);
  CHECK(base(peft("transformer.transformer_blocks.3.attn.to_q")) == nullptr);
  CHECK(base(peft("diffusion_model.joint_blocks.0.x_block.attn.qkv")) == "sd3");
  CHECK(base(peft("transformer.transformer_blocks.0.img_mlp.net.0.proj")) == "qwen-image");
  CHECK(base(peft("diffusion_model.blocks.0.self_attn.q") +
             peft("diffusion_model.blocks.0.cross_attn.k_img")) == "wan");
  CHECK(base(kohya("lora_unet_a_attn2_to_k", 1, 4, 768)) == "sd1");
  CHECK(base(kohya("lora_unet_a_attn2_to_k", 1, 4, 1024)) == "sd2");
  CHECK(base(kohya("lora_unet_a_attn2_to_k", 1, 4, 2048)) == "sdxl");
  CHECK(base(kohya("lora_te2_text_model_a", 1)) == "sdxl");
  CHECK(base(kohya("lora_unet_input_blocks_4_1_proj_in", 1)) == "sdxl");
  CHECK(base(kohya("lora_unet_down_blocks_0_attentions_0_proj_in", 1)) == nullptr);
  CHECK(base(peft("base_model.model.model.layers.0.self_attn.q_proj")) == "llm");
  CHECK(base(peft("base_model.model.transformer.h.0.attn.c_attn")) == nullptr);
}
