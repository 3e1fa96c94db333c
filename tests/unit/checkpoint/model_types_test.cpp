#include <catch2/catch.hpp>
#include <set>

#include "tftf/base/json_value.h"
#include "tftf/checkpoint/layout_names.h"
#include "tftf/checkpoint/model_types.h"

using namespace tftf;

namespace {

JsonDocument config_of(const std::string& text) { return parse_json(text, JsonDialect::kPython); }

LayoutNames names_of(const char* type) { return LayoutNames(ModelEntry{find_model_type(type)}); }

constexpr NameLayout k4 = NameLayout::kTransformers4, k5 = NameLayout::kTransformers5;

}  // namespace

TEST_CASE("every model type is found by its name, and stands once in the table") {
  std::set<std::string_view> names;
  for (const ModelType& type : model_types()) {
    CHECK(names.insert(type.name).second);
    CHECK(find_model_type(type.name) == &type);
    CHECK(left_out_reason(type.name).empty());
    for (const ExpertKind& kind : type.experts) {
      CHECK_FALSE(kind.up.empty());
      CHECK_FALSE(kind.fused_down.empty());
      CHECK(kind.form.in5 == ExpertForm::kFused);
    }
  }
  CHECK(names.size() == 76);
  CHECK(find_model_type("gpt2") == nullptr);
  CHECK_FALSE(left_out_reason("dbrx").empty());
}

TEST_CASE("rules of a layout are of one kind: both sides inside, or both starts") {
  for (const ModelType& type : model_types())
    for (const NameRule& rule : type.names) {
      CHECK(rule.inside() == (rule.side.in5.front() == '.'));
      CHECK((rule.side.in4.back() == '.') == (rule.side.in5.back() == '.'));
    }
}

TEST_CASE("the model's entry is that of config.json, or of the type that is named") {
  const JsonDocument mixtral = config_of(R"({"model_type": "mixtral"})");
  REQUIRE(find_model_entry(&mixtral.root, "").ok());
  CHECK(find_model_entry(&mixtral.root, "")->type->name == "mixtral");
  CHECK(find_model_entry(&mixtral.root, "llama4")->type->name == "llama4");
  CHECK(find_model_entry(nullptr, "").error().code == ErrorCode::kRefusedMissing);
  CHECK(find_model_entry(nullptr, "gpt2").error().code == ErrorCode::kRefusedUnsupported);
  CHECK(find_model_entry(nullptr, "dbrx").error().message.find("flat rows") != std::string::npos);
  CHECK_FALSE(known_model_entry(nullptr));
}

TEST_CASE("a wrapper without experts takes those of its text model") {
  const JsonDocument config =
      config_of(R"({"model_type": "llava", "text_config": {"model_type": "mixtral"}})");
  const auto entry = known_model_entry(&config.root);
  REQUIRE(entry);
  REQUIRE(entry->inner != nullptr);
  CHECK(entry->experts().size() == 1);
  const LayoutNames names(*entry);
  CHECK(names.convert("language_model.model.layers.0.block_sparse_moe.gate.weight", k5).name ==
        "model.language_model.layers.0.mlp.gate.weight");
  CHECK(names.convert("model.language_model.layers.0.mlp.gate.weight", k4).name ==
        "language_model.model.layers.0.block_sparse_moe.gate.weight");
  // The text model's rules are for names below its body alone.
  CHECK(names.convert("vision_tower.block_sparse_moe.weight", k5).name ==
        "model.vision_tower.block_sparse_moe.weight");
}

TEST_CASE("the number of experts is the first that a configuration tells") {
  const auto count = [](const std::string& text) {
    const JsonDocument config = config_of(text);
    return expert_count(&config.root);
  };
  CHECK(count(R"({"num_experts": 8})") == 8);
  CHECK(count(R"({"num_experts": 8, "text_config": {"n_routed_experts": 4}})") == 4);
  CHECK(count(R"({"num_local_experts": [4, 4]})") == 4);
  CHECK_FALSE(count(R"({"num_local_experts": [4, 8]})"));
  CHECK_FALSE(count("{}"));
  CHECK_FALSE(expert_count(nullptr));
}

TEST_CASE("the longest side decides, and a name that is there stays") {
  const LayoutNames names = names_of("phimoe");
  CHECK(names.convert("model.layers.0.block_sparse_moe.gate.weight", k5).name ==
        "model.layers.0.mlp.router.weight");
  CHECK(names.convert("model.layers.0.mlp.router.weight", k4).name ==
        "model.layers.0.block_sparse_moe.gate.weight");
  CHECK(names.convert("model.layers.0.mlp.router.weight", k5).name == "model.layers.0.mlp.router.weight");
  CHECK_FALSE(names.convert("model.norm.weight", k5).moved);
  CHECK(names.convert("anything", k5).known);
}

TEST_CASE("a type with starts knows its names, keeps what it must and reads one-way rules one way") {
  const LayoutNames names = names_of("nemotron_h");
  CHECK(names.convert("backbone.embedding.weight", k5).name == "model.embeddings.weight");
  CHECK(names.convert("backbone.embedding.weight", k5).one_way);
  CHECK(names.convert("model.embeddings.weight", k4).name == "backbone.embeddings.weight");
  CHECK_FALSE(names.convert("extra.weight", k5).known);
  CHECK(names.keeps("mtp.layers.0.mixer.experts.0.up_proj.weight"));
  CHECK_FALSE(names.convert("mtp.backbone.weight", k5).moved);
}

TEST_CASE("ends act on names that are not there already") {
  const LayoutNames names = names_of("deepseek_v4");
  CHECK(names.convert("layers.0.attn.wkv.scale", k5).name ==
        "model.layers.0.self_attn.kv_proj.weight_scale_inv");
  CHECK(names.convert("model.layers.0.self_attn.kv_proj.weight_scale_inv", k4).name ==
        "layers.0.attn.wkv.scale");
  CHECK(names.convert("layers.0.hc_attn_scale", k5).name == "model.layers.0.attn_hc.scale");
  CHECK(names.convert("model.layers.0.attn_hc.scale", k5).name == "model.layers.0.attn_hc.scale");
}

TEST_CASE("converting twice is converting once, for every rule") {
  for (const ModelType& type : model_types()) {
    const LayoutNames names(ModelEntry{&type});
    for (const NameRule& rule : type.names)
      for (const std::string_view side : {rule.side.in4, rule.side.in5})
        for (const NameLayout to : {k4, k5}) {
          const std::string name = (rule.inside() ? "model.layers.0" : "") + std::string(side) + "weight";
          const std::string once = names.convert(name, to).name;
          INFO(type.name << ": " << name);
          CHECK(names.convert(once, to).name == once);
        }
  }
}

TEST_CASE("most names say which layout a file has") {
  const LayoutNames names = names_of("mixtral");
  LayoutVote vote(names);
  CHECK(vote.layout() == k4);
  vote.add("model.layers.0.mlp.gate.weight");
  CHECK(vote.layout() == k5);
  vote.add("model.layers.0.block_sparse_moe.gate.weight");
  CHECK(vote.layout() == k4);
  CHECK(vote.to4() == 1);
  CHECK(vote.to5() == 1);
}

TEST_CASE("names below containers of experts are read") {
  const auto kinds = find_model_type("mixtral")->experts;
  const auto split = parse_expert_name(kinds, "model.layers.0.block_sparse_moe.experts.10.w3.weight");
  REQUIRE(split);
  CHECK(split->what == ExpertName::What::kSplit);
  CHECK(split->prefix == "model.layers.0.");
  CHECK(split->container == "model.layers.0.block_sparse_moe.experts");
  CHECK(split->number == "10");
  CHECK(split->part == ExpertName::Part::kUp);
  CHECK(split->rest == "weight");
  CHECK(split->at.in4);
  CHECK_FALSE(split->at.in5);
  const auto fused = parse_expert_name(kinds, "mlp.experts.gate_up_proj_scale_inv");
  REQUIRE(fused);
  CHECK(fused->what == ExpertName::What::kFused);
  CHECK(fused->prefix.empty());
  CHECK(fused->rest == "_scale_inv");
  CHECK(parse_expert_name(kinds, "a.mlp.experts.0.w1.weight.absmax")->what == ExpertName::What::kStray);
  CHECK(parse_expert_name(kinds, "a.mlp.experts.gate_up_proj.weight")->what == ExpertName::What::kAboveTail);
  for (const char* name : {"a.mlp.shared_experts.w1.weight", "a.xmlp.experts.0.w1.weight", "a.mlp.experts",
                           "a.mlp.experts.x.w1.weight", "a.mlp.experts.gate_up_projector", ""})
    CHECK_FALSE(parse_expert_name(kinds, name));
}

TEST_CASE("suffixes of experts become tails of fused tensors and come back") {
  for (const auto& [suffix, tail] : {std::pair<std::string, std::string>{"weight", ""},
                                     {"weight_scale_inv", "_scale_inv"},
                                     {"bias", "_bias"},
                                     {"input_scale", "_input_scale"}}) {
    CHECK(tail_of_suffix(suffix) == tail);
    CHECK(suffix_of_tail(tail) == suffix);
  }
}
