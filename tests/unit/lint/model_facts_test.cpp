// IX040 and CF040 to CF048: models that load and lack a part. For each a folder where it is reported and one where not.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;
using nlohmann::json;

namespace {

json config(const json& more = json::object()) {
  json out = {{"model_type", "new"}, {"architectures", {"NewForCausalLM"}}, {"num_hidden_layers", 1}};
  out.update(more);
  return out;
}

LintTensor plain_tensor(const std::string& name, std::vector<uint64_t> shape = {4, 4}) {
  return {name, "BF16", shape};
}

// Findings of the rules CF04x, CF021 and CF030, "CF040 subject".
Lines find_parts(const json& configuration, const std::vector<LintTensor>& tensors, MemoryFiles more = {}) {
  more["config.json"] = configuration.dump();
  if (!more.count("model.safetensors")) more["model.safetensors"] = weights(tensors);
  Lines out;
  for (const Diagnostic& finding : run_lint(more).findings) {
    const std::string id(rule_info(finding.rule).id);
    if (id.substr(0, 4) == "CF04" || id == "CF021" || id == "CF030")
      out.push_back(id + " " + finding.subject.value_or("-"));
  }
  return out;
}

const std::string kLayer = "model.layers.0.mlp.up_proj.weight";

}  // namespace

TEST_CASE("IX040: a model whose index maps nothing") {
  const std::string index = R"({"metadata":{"total_size":0},"weight_map":{}})";
  MemoryFiles files = {{"config.json", config().dump()},
                       {"model.safetensors.index.json", index},
                       {"model-00001-of-00001.safetensors", weights({plain_tensor(kLayer)})}};
  const auto found = [&] { return finding_lines(run_lint(files).findings, {"IX04"}); };
  CHECK(found() == Lines{"IX040 model.safetensors.index.json -"});
  files["model.safetensors"] = weights({plain_tensor(kLayer)});
  CHECK(found().empty());
  files.erase("model.safetensors");
  files["config.json"] = "{}";
  CHECK(found().empty());
}

TEST_CASE("CF040: prediction layers are announced and not stored") {
  const auto said = [](const json& more, const std::string& name) {
    return find_parts(config(more), {plain_tensor(kLayer), plain_tensor(name)});
  };
  const json one = {{"num_nextn_predict_layers", 1}};
  const Lines missing = {"CF040 num_nextn_predict_layers"};
  CHECK(said(one, "model.norm.weight") == missing);
  for (const char* name : {"model.mtp.0.fc.weight", "mtp_block.norm.weight", "model.nextn.weight",
                           "model.layers.1.mlp.up_proj.weight", "model.eh_proj.weight"}) {
    INFO(name);
    CHECK(said(one, name).empty());
  }
  CHECK(said(one, "vision.layers.1.mlp.up_proj.weight") == missing);
  CHECK(said({{"num_nextn_predict_layers", 2}}, "model.layers.1.eh_proj.weight") == missing);
  CHECK(said({{"num_nextn_predict_layers", 0}}, "model.norm.weight").empty());
  CHECK(said({{"num_nextn_predict_layers", nullptr}, {"mtp_num_hidden_layers", 1}}, "model.norm.weight") ==
        Lines{"CF040 mtp_num_hidden_layers"});
  CHECK(said({{"text_config", {{"mtp_num_hidden_layers", 1}}}}, "model.norm.weight") ==
        Lines{"CF040 mtp_num_hidden_layers"});
  json mlx = one;
  mlx["quantization"] = {{"bits", 4}};
  CHECK(said(mlx, "model.norm.weight").empty());
  // A file that the index leaves out holds it.
  const json whole = config(one);
  const std::string index =
      R"({"metadata":{"total_size":32},"weight_map":{")" + kLayer + R"(":"model.safetensors"}})";
  CHECK(find_parts(whole, {plain_tensor(kLayer)},
                   {{"mtp.safetensors", weights({plain_tensor("mtp.fc.weight")})},
                    {"model.safetensors.index.json", index}})
            .empty());
  // Nothing is said while a file is cut.
  std::string cut = weights({plain_tensor(kLayer)});
  cut.pop_back();
  CHECK(find_parts(whole, {}, {{"model.safetensors", cut}}).empty());
}

TEST_CASE("CF042: a tower is announced and not stored") {
  const json vision = {{"architectures", {"NewForConditionalGeneration"}}, {"vision_config", {{"depth", 1}}}};
  CHECK(find_parts(config(vision), {plain_tensor(kLayer)}) == Lines{"CF042 vision_config"});
  for (const char* name : {"model.visual.blocks.0.attn.weight", "vision_tower.x.weight",
                           "mm_projector.patch.weight", "model.Vision_Model.w"}) {
    INFO(name);
    CHECK(find_parts(config(vision), {plain_tensor(kLayer), plain_tensor(name)}).empty());
  }
  // The last component does not count.
  CHECK(find_parts(config(vision), {plain_tensor(kLayer), plain_tensor("model.image")}) ==
        Lines{"CF042 vision_config"});
  json other = vision;
  other["language_model_only"] = true;
  CHECK(find_parts(config(other), {plain_tensor(kLayer)}).empty());
  other = vision;
  other["architectures"] = {"NewForCausalLM"};
  CHECK(find_parts(config(other), {plain_tensor(kLayer)}).empty());
  other = vision;
  other["vision_config"] = json::object();
  CHECK(find_parts(config(other), {plain_tensor(kLayer)}).empty());
  other["audio_config"] = {{"n", 1}};
  CHECK(find_parts(config(other), {plain_tensor("vision.w")}) == Lines{"CF042 audio_config"});
  CHECK(find_parts(config(other), {plain_tensor("audio_tower.w")}).empty());
}

TEST_CASE("CF043: other numbers of experts than the configuration says") {
  const auto experts = [](const std::string& path, std::vector<int> numbers) {
    std::vector<LintTensor> out;
    for (const int number : numbers)
      out.push_back(plain_tensor(path + "." + std::to_string(number) + ".w1.weight"));
    return out;
  };
  const std::string path = "model.layers.0.mlp.experts";
  const json three = config({{"num_experts", 3}});
  CHECK(find_parts(three, experts(path, {0, 1, 2})).empty());
  CHECK(find_parts(three, experts(path, {0, 1})) == Lines{"CF043 " + path});
  CHECK(find_parts(three, experts(path, {0, 1, 3})) == Lines{"CF043 " + path});
  CHECK(find_parts(three, experts(path, {0, 1, 2, 3})) == Lines{"CF043 " + path});
  CHECK(find_parts(three, experts("model.mtp.layers.0.mlp.experts", {0})).empty());
  CHECK(find_parts(three, experts("experts", {0})).empty());
  CHECK(find_parts(three, {{path + ".gate_up_proj", "BF16", {3, 2, 2}}}).empty());
  CHECK(find_parts(three, {{path + ".gate_up_proj", "BF16", {2, 2, 2}}}) == Lines{"CF043 " + path});
  CHECK(find_parts(three, {{path + ".bias", "BF16", {2, 2}}}).empty());
  CHECK(find_parts(config({{"num_experts", {3, 2}}}), experts(path, {0})).empty());
  CHECK(find_parts(config({{"num_experts", 3}, {"block_configs", {1}}}), experts(path, {0})).empty());
}

TEST_CASE("CF044: stacked experts of a type that stores single ones") {
  const LintTensor stacked = {"model.layers.0.mlp.experts.down_proj", "BF16", {2, 2, 2}};
  json olmoe = config({{"model_type", "olmoe"}});
  CHECK(find_parts(olmoe, {stacked}) == Lines{"CF044 " + stacked.name});
  CHECK(find_parts(olmoe, {stacked, plain_tensor("model.layers.1.mlp.experts.0.down_proj.weight")}).empty());
  CHECK(find_parts(config(), {stacked}).empty());
}

TEST_CASE("CF045, CF046: names of wrappers") {
  CHECK(find_parts(config(), {plain_tensor("q_proj.base_layer.weight")}) ==
        Lines{"CF045 q_proj.base_layer.weight"});
  CHECK(find_parts(config(), {plain_tensor("base_layer.weight"), plain_tensor("x.base_layer.conv.weight")})
            .empty());
  CHECK(find_parts(config(), {plain_tensor("module.a.w"), plain_tensor("module.b.w")}) ==
        Lines{"CF046 module."});
  CHECK(find_parts(config(), {plain_tensor("module.a.w"), plain_tensor("b.w")}).empty());
  CHECK(find_parts(config(), {plain_tensor("a._orig_mod.w"), plain_tensor("b.w")}) ==
        Lines{"CF046 _orig_mod"});
  CHECK(find_parts(config(), {plain_tensor("_orig_mod.w"), plain_tensor("b.w")}).empty());
}

TEST_CASE("CF047, CF048, CF021, CF030: embeddings and head without a family table") {
  const std::string name = "model.language_model.embed_tokens.weight";
  const std::vector<LintTensor> tensors = {plain_tensor(name, {8, 2})};
  CHECK(find_parts(config({{"vocab_size", 8}}), tensors).empty());
  CHECK(find_parts(config({{"vocab_size", 9}}), tensors) == Lines{"CF047 " + name});
  CHECK(find_parts(config({{"vocab_size", 9}, {"text_config", {{"vocab_size", 8}}}}), tensors).empty());
  CHECK(find_parts(config({{"vocab_size", 9}, {"model_type", "mllama_x"}}), tensors).empty());
  CHECK(
      find_parts(config({{"vocab_size", 9}}), {plain_tensor(name), plain_tensor("model.embed_tokens.weight")})
          .empty());

  const json untied = {{"tie_word_embeddings", false}};
  CHECK(find_parts(config(untied), tensors) == Lines{"CF048 lm_head.weight"});
  for (const char* head : {"lm_head.weight", "model.lm_head.out.weight", "output.weight", "embed_out.weight",
                           "x.head.weight", "transformer.output_layer.weight"}) {
    INFO(head);
    CHECK(find_parts(config(untied), {tensors[0], plain_tensor(head)}).empty());
  }
  CHECK(find_parts(config(), tensors).empty());
  json both = untied;
  both["text_config"] = {{"tie_word_embeddings", true}};
  CHECK(find_parts(config(both), tensors).empty());
  CHECK(find_parts(config(untied), tensors, {{"modules.json", "[]"}}).empty());
  json encoder = untied;
  encoder["architectures"] = {"NewModel"};
  CHECK(find_parts(config(encoder), tensors).empty());

  const json tied = {{"tie_word_embeddings", true}};
  CHECK(find_parts(config(tied), {tensors[0], plain_tensor("lm_head.weight", {8, 2})}) ==
        Lines{"CF021 lm_head.weight"});
  CHECK(find_parts(config(tied), tensors).empty());
  CHECK(find_parts(config(), tensors, {{"tokenizer.json", R"({"model":{"vocab":{"a":7,"b":8}}})"}}) ==
        Lines{"CF030 b"});
}

namespace {

Lines find_layout(const json& configuration, const std::vector<LintTensor>& tensors,
                  const MemoryFiles* base = nullptr) {
  const MemoryFiles files = {{"config.json", configuration.dump()}, {"model.safetensors", weights(tensors)}};
  return finding_lines(run_lint(files, {}, base).findings, {"CF06"});
}

}  // namespace

TEST_CASE("CF060: names of transformers 5 where released files have others") {
  const json llava = {{"model_type", "llava"}};
  CHECK(find_layout(llava, {plain_tensor("model.language_model.norm.weight"),
                            plain_tensor("model.vision_tower.a.weight")}) ==
        Lines{"CF060 config.json model.language_model.norm.weight"});
  CHECK(find_layout(llava,
                    {plain_tensor("language_model.model.norm.weight"), plain_tensor("vision_tower.a.weight")})
            .empty());
  // A type without two layouts.
  CHECK(find_layout({{"model_type", "llama"}}, {plain_tensor("model.language_model.norm.weight")}).empty());
}

TEST_CASE("CF061: experts of both forms, or without a part") {
  const json type = {{"model_type", "afmoe"}};
  const std::string path = "model.layers.0.mlp.experts";
  const auto experts = [&](const std::string& but) {
    std::vector<LintTensor> tensors;
    for (const char* expert : {"0", "1"})
      for (const char* part : {"gate_proj", "up_proj", "down_proj"})
        if (const std::string name = path + "." + expert + "." + part + ".weight"; name != path + "." + but)
          tensors.push_back(plain_tensor(name));
    return tensors;
  };
  CHECK(find_layout(type, experts("")).empty());
  CHECK(find_layout(type, experts("1.up_proj.weight")) == Lines{"CF061 config.json " + path});
  std::vector<LintTensor> both = experts("");
  both.push_back(plain_tensor(path + ".down_proj", {2, 4, 4}));
  CHECK(find_layout(type, both) == Lines{"CF061 config.json " + path});
  // What was never routed has no input scale.
  std::vector<LintTensor> scaled = experts("");
  scaled.push_back(plain_tensor(path + ".0.up_proj.input_scale", {1}));
  CHECK(find_layout(type, scaled).empty());
}

TEST_CASE("CF062: modules of the base that are gone") {
  const json type = {{"model_type", "mixtral"}, {"tie_word_embeddings", true}};
  const std::string in4 = "model.layers.0.block_sparse_moe.", in5 = "model.layers.0.mlp.";
  const auto folder = [&](const std::vector<LintTensor>& tensors) {
    return MemoryFiles{{"config.json", type.dump()}, {"model.safetensors", weights(tensors)}};
  };
  const std::vector<LintTensor> common = {plain_tensor("model.norm.weight", {4}),
                                          plain_tensor("model.embed_tokens.weight")};
  std::vector<LintTensor> base = common, own = common;
  for (const char* part : {"w1", "w2", "w3"})
    base.push_back(plain_tensor(in4 + "experts.0." + part + ".weight"));
  base.push_back(plain_tensor("lm_head.weight"));  // tied
  own.push_back(plain_tensor(in5 + "experts.gate_up_proj", {1, 8, 4}));
  own.push_back(plain_tensor(in5 + "experts.down_proj", {1, 4, 4}));
  const MemoryFiles same = folder(base);
  // Other names and another form of the experts are no loss; their names are told apart from it.
  CHECK(find_layout(type, own, &same) == Lines{"CF060 config.json " + in5 + "experts.down_proj"});
  base.push_back(plain_tensor(in4 + "gate.weight"));
  const MemoryFiles more = folder(base);
  CHECK(find_layout(type, own, &more).back() == "CF062 config.json " + in5 + "gate");
  CHECK(find_layout(type, base, &more).empty());
  // Another model altogether.
  CHECK(find_layout(type, {plain_tensor("model.norm.weight", {4})}, &more).empty());
}
