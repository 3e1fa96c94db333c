// LO021 to LO029, and LO005, LO006, LO016 of all families: for each an adapter where it is reported and one where it is not.
#include <algorithm>
#include <catch2/catch.hpp>

#include "lint_host.h"

namespace family_cases {

using namespace tftf;
using namespace tftf::test;

namespace {

using FamilyLines = std::vector<std::string>;
using LintTensors = std::vector<LintTensor>;

LintTensors operator+(LintTensors a, const LintTensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
LintTensors flat_pair(const std::string& module, bool alpha = true) {
  LintTensors tensors = {{module + ".lora_down.weight", "F32", {2, 4}},
                         {module + ".lora_up.weight", "F32", {6, 2}}};
  if (alpha) tensors.push_back({module + ".alpha", "F32", {}});
  return tensors;
}
LintTensors dotted_pair(const std::string& module) {
  return {{module + ".lora_A.weight", "F32", {2, 4}}, {module + ".lora_B.weight", "F32", {6, 2}}};
}

FamilyLines family_lines(const LintTensors& tensors, const std::string& metadata = R"({"format":"pt"})") {
  return finding_lines(run_lint({{"m.safetensors", weights(tensors, metadata)}}).findings, {"LO"});
}

const LintTensors kKohya = flat_pair("lora_unet_mid_block_attentions_0_proj_in");

}  // namespace

TEST_CASE("a sound adapter of any family has no finding") {
  CHECK(family_lines(kKohya).empty());
  CHECK(family_lines(dotted_pair("unet.mid_block.attentions.0.proj_in")).empty());
  CHECK(family_lines(dotted_pair("diffusion_model.double_blocks.0.img_attn.qkv")).empty());
  CHECK(family_lines({{"model.norm.weight", "F32", {4}}}).empty());
}

TEST_CASE("LO021: some modules have no alpha") {
  CHECK(family_lines(kKohya + flat_pair("lora_unet_conv_in", false)) ==
        FamilyLines{"LO021 m.safetensors lora_unet_conv_in"});
  CHECK(family_lines(flat_pair("lora_unet_conv_in", false)).empty());  // none has one
}

TEST_CASE("LO022: a module under two spellings") {
  CHECK(family_lines(dotted_pair("diffusion_model.a.b") +
                     LintTensors{{"diffusion_model.a.b.lora_down.weight", "F32", {2, 4}}}) ==
        FamilyLines{"LO006 m.safetensors diffusion_model.a.b", "LO016 m.safetensors -",
                    "LO022 m.safetensors diffusion_model.a.b.lora_down.weight"});
  const FamilyLines two = family_lines(dotted_pair("unet.a.b") + dotted_pair("diffusion_model.a.b"));
  CHECK(std::find(two.begin(), two.end(), "LO022 m.safetensors diffusion_model.a.b") != two.end());
  CHECK(family_lines(dotted_pair("unet.a.b") + dotted_pair("unet.a.c")).empty());
}

TEST_CASE("LO023: an adapter's prefix and no known part") {
  CHECK(family_lines(kKohya + LintTensors{{"lora_unet_x.weights_of_doom", "F32", {2}}}) ==
        FamilyLines{"LO023 m.safetensors lora_unet_x.weights_of_doom"});
}

TEST_CASE("LO024: a DoRA in kohya's names") {
  CHECK(family_lines(kKohya +
                     LintTensors{{"lora_unet_mid_block_attentions_0_proj_in.dora_scale", "F32", {6, 1}}}) ==
        FamilyLines{"LO024 m.safetensors lora_unet_mid_block_attentions_0_proj_in"});
}

TEST_CASE("LO025: PEFT's names without a configuration or metadata") {
  const LintTensors peft = dotted_pair("base_model.model.q");
  CHECK(family_lines(peft) == FamilyLines{"LO025 m.safetensors -"});
  CHECK(family_lines(peft, R"({"lora_alpha":"4"})").empty());
  const FamilyLines beside = finding_lines(
      run_lint(
          {{"adapter_model.safetensors", weights(peft)},
           {"adapter_config.json",
            R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q"], "base_model_name_or_path": "b"})"}})
          .findings,
      {"LO"});
  CHECK(beside.empty());
}

TEST_CASE("LO026: two modules that become one name with underscores") {
  CHECK(family_lines(dotted_pair("unet.a.b_c") + dotted_pair("unet.a_b.c")) ==
        FamilyLines{"LO026 m.safetensors unet.a_b.c"});
}

TEST_CASE("LO027: transposed factors") {
  const std::string module = "unet.mid_block.attentions.0.proj_in";
  const FamilyLines lines =
      family_lines({{module + ".lora_A.weight", "F32", {4, 2}}, {module + ".lora_B.weight", "F32", {2, 6}}});
  CHECK(std::find(lines.begin(), lines.end(), "LO027 m.safetensors " + module) != lines.end());
  // MLX's own.
  CHECK(family_lines({{"q.lora_a", "F32", {4, 2}}, {"q.lora_b", "F32", {2, 6}}}) ==
        FamilyLines{"LO025 m.safetensors -"});
  // Two experts of rank 3: as PEFT stores a pair of a stacked parameter.
  const std::string stacked = "base_model.model.model.layers.0.mlp.experts";
  for (const std::string& name : {stacked, stacked + ".base_layer"}) {
    const FamilyLines none =
        family_lines({{name + ".lora_A.weight", "F32", {6, 4}}, {name + ".lora_B.weight", "F32", {4, 6}}});
    CHECK(std::none_of(none.begin(), none.end(),
                       [](const std::string& line) { return line.find("LO027") == 0; }));
  }
}

TEST_CASE("LO028: metadata about the training data") {
  CHECK(family_lines(kKohya, R"({"ss_dataset_dirs":"{\"10_me\": {}}"})") ==
        FamilyLines{"LO028 m.safetensors -"});
  CHECK(family_lines(kKohya, R"({"note":"trained in /home/somebody/pictures"})") ==
        FamilyLines{"LO028 m.safetensors -"});
  CHECK(family_lines(kKohya, R"({"ss_dataset_dirs":"{}","ss_network_dim":"4"})").empty());
}

TEST_CASE("LO029: metadata names another family of models") {
  const LintTensors xl = {{"lora_unet_x_attn2_to_k.lora_down.weight", "F32", {2, 2048}},
                          {"lora_unet_x_attn2_to_k.lora_up.weight", "F32", {6, 2}},
                          {"lora_unet_x_attn2_to_k.alpha", "F32", {}}};
  CHECK(family_lines(xl, R"({"ss_base_model_version":"sd_v1"})") ==
        FamilyLines{"LO029 m.safetensors ss_base_model_version"});
  CHECK(family_lines(xl, R"({"ss_base_model_version":"sdxl_base_v1-0"})").empty());
}

TEST_CASE("LO005, LO006: pairs of families that name them otherwise") {
  const std::string layer = "double_blocks.0.processor.qkv_lora1";
  CHECK(family_lines({{layer + ".down.weight", "F32", {2, 4}}}) ==
        FamilyLines{"LO006 m.safetensors " + layer});
  CHECK(family_lines({{layer + ".down.weight", "F32", {2, 4}}, {layer + ".up.weight", "F32", {12, 3}}}) ==
        FamilyLines{"LO005 m.safetensors " + layer});
  CHECK(family_lines({{layer + ".down.weight", "F32", {2, 4}}, {layer + ".up.weight", "F32", {12, 2}}})
            .empty());
  CHECK(family_lines({{"lora_unet_x.hada_w1_a", "F32", {4, 2}},
                      {"lora_unet_x.hada_w1_b", "F32", {2, 4}},
                      {"lora_unet_x.hada_w2_a", "F32", {4, 2}}}) ==
        FamilyLines{"LO006 m.safetensors lora_unet_x"});
}

TEST_CASE("LO016: families of the same spelling in one file") {
  CHECK(family_lines(dotted_pair("unet.a.b") + dotted_pair("diffusion_model.x.y")) ==
        FamilyLines{"LO016 m.safetensors -"});
}

}  // namespace family_cases
