#include "tftf/adapter/targeting.h"

#include <catch2/catch.hpp>

#include "tftf/adapter/peft_key.h"

using namespace tftf;

namespace {

// Keeps the configuration alive beside its targeting.
struct Fixture {
  explicit Fixture(const std::string& text)
      : config(*read_peft_config("adapter_config.json", parse_json(text, JsonDialect::kPython).root)),
        targeting(*Targeting::compile(config)) {}
  TargetVerdict verdict(std::string_view module) const { return *targeting.verdict(module); }
  PeftConfig config;
  Targeting targeting;
};

using enum TargetVerdict;

}  // namespace

TEST_CASE("keys of every spelling are taken apart") {
  struct Row {
    const char* name;
    const char* module;
    PeftPart part;
    const char* adapter;
    uint32_t nesting;
    const char* parameter;
  };
  const Row rows[] = {
      {"base_model.model.m.q.lora_A.weight", "m.q", PeftPart::kLoraA, "", 0, ""},
      {"base_model.model.m.q.lora_A.default.weight", "m.q", PeftPart::kLoraA, "default", 0, ""},
      {"m.q.lora_B.mine", "m.q", PeftPart::kLoraB, "mine", 0, ""},
      {"m.q.lora_B", "m.q", PeftPart::kLoraB, "", 0, ""},
      {"m.q.lora_B.bias", "m.q", PeftPart::kLoraBBias, "", 0, ""},
      {"m.q.lora_B.default.bias", "m.q", PeftPart::kLoraBBias, "default", 0, ""},
      {"base_model.model.e.base_layer.base_layer.lora_A.weight", "e", PeftPart::kLoraA, "", 2, ""},
      {"base_model.model.e.lora_embedding_A", "e", PeftPart::kEmbeddingA, "", 0, ""},
      {"base_model.model.e.lora_embedding_B.default", "e", PeftPart::kEmbeddingB, "default", 0, ""},
      {"base_model.model.q.lora_magnitude_vector", "q", PeftPart::kMagnitude, "", 0, ""},
      {"base_model.model.q.lora_magnitude_vector.default.weight", "q", PeftPart::kMagnitude, "default", 0,
       ""},
      {"base_model.vera_A", "", PeftPart::kVeraA, "", 0, ""},
      {"base_model.model.emb.token_adapter.trainable_tokens_delta", "emb", PeftPart::kTokenRows, "", 0, ""},
      {"base_model.model.score.modules_to_save.default.weight", "score", PeftPart::kSaved, "default", 0,
       "weight"},
      {"base_model.model.emb.base_layer.weight", "emb", PeftPart::kSaved, "", 1, "weight"},
      {"base_model.model.classifier.dense.bias", "classifier.dense", PeftPart::kSaved, "", 0, "bias"},
      {"model.lora_proj.weight", "model.lora_proj", PeftPart::kSaved, "", 0, "weight"},
      {"q.hada_w1_a", "q", PeftPart::kHadaW1A, "", 0, ""},
      {"q.oft_R.weight", "q", PeftPart::kOftR, "", 0, ""},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const PeftKey key = parse_peft_key(row.name);
    CHECK(key.module == row.module);
    CHECK(key.part == row.part);
    CHECK(key.adapter == row.adapter);
    CHECK(key.nesting == row.nesting);
    CHECK(key.parameter == row.parameter);
  }
}

TEST_CASE("lists name suffixes of whole components, a string is a pattern for the whole path") {
  const Fixture list(R"({"target_modules":["q_proj","mlp.up"]})");
  CHECK(list.verdict("model.layers.0.self_attn.q_proj") == kTargeted);
  CHECK(list.verdict("q_proj") == kTargeted);
  CHECK(list.verdict("model.xq_proj") == kNotTargeted);
  CHECK(list.verdict("a.mlp.up") == kTargeted);
  const Fixture pattern(R"({"target_modules":".*\\.(q|v)_proj"})");
  CHECK(pattern.verdict("a.q_proj") == kTargeted);
  CHECK(pattern.verdict("a.q_proj.x") == kNotTargeted);
  CHECK(Fixture(R"({"target_modules":"all-linear"})").verdict("anything") == kTargeted);
  CHECK(Fixture(R"({"target_modules":null})").verdict("anything") == kTargeted);
  CHECK(Fixture(R"({"target_parameters":["experts.w"]})").verdict("q") == kNotTargeted);
}

TEST_CASE("exclusion, saved modules and layers restrict") {
  CHECK(Fixture(R"({"target_modules":["q"],"exclude_modules":["l0.q"]})").verdict("m.l0.q") == kExcluded);
  CHECK(Fixture(R"({"target_modules":["q"],"exclude_modules":"m\\.l1\\..*"})").verdict("m.l1.q") ==
        kExcluded);
  const Fixture saved(R"({"target_modules":["dense"],"modules_to_save":["classifier"]})");
  CHECK(saved.verdict("pre_classifier.dense") == kSavedWhole);
  CHECK(saved.verdict("classifiers.dense") == kTargeted);
  const Fixture layers(R"({"target_modules":["q"],"layers_to_transform":[1,12]})");
  CHECK(layers.verdict("model.layers.1.attn.q") == kTargeted);
  CHECK(layers.verdict("model.layers.2.experts.1.q") == kOtherLayer);
  CHECK(layers.verdict("layers.q") == kOtherLayer);
  // Named in full, or no layer given at all.
  CHECK(layers.verdict("q") == kTargeted);
  const Fixture full(R"({"target_modules":["q","m.layers.3.v","v"],"layers_to_transform":[1]})");
  CHECK(full.verdict("m.layers.3.v") == kTargeted);
  CHECK(full.verdict("m.layers.4.v") == kOtherLayer);
  const Fixture empty(R"({"target_modules":["q"],"layers_to_transform":[]})");
  CHECK(empty.verdict("model.layers.7.q") == kTargeted);
  CHECK(empty.verdict("x.q") == kTargeted);
  const Fixture named(R"({"target_modules":["q"],"layers_to_transform":0,"layers_pattern":"h"})");
  CHECK(named.verdict("t.x.5.h.0.q") == kTargeted);
  CHECK(named.verdict("t.h.5.q") == kOtherLayer);
}

TEST_CASE("rank and alpha patterns are regular expressions, the first in the file decides") {
  const Fixture f(
      R"({"r":8,"lora_alpha":16,"rank_pattern":{"layers.1.q":2,"q":4},"alpha_pattern":{".*q":3}})");
  CHECK(*f.targeting.rank("m.layers.1.q") == 2);
  CHECK(*f.targeting.rank("m.layers.21.q") == 4);
  CHECK(*f.targeting.rank("m.v") == 8);
  CHECK(*f.targeting.alpha("m.layers.1.q") == 3.0);
  CHECK(*f.targeting.scale("m.v", 8) == 2.0);
  CHECK(*Fixture(R"({"r":4,"lora_alpha":16,"use_rslora":true})").targeting.scale("v", 4) == 8.0);
  const PeftConfig none = default_peft_config();
  CHECK(*Targeting::compile(none)->scale("v", 4) == 1.0);
}

TEST_CASE("patterns that cannot be used are refused, and those that never end stop") {
  const PeftConfig bad =
      *read_peft_config("a.json", parse_json(R"({"target_modules":"(?<x>a)("})", JsonDialect::kPython).root);
  auto compiled = Targeting::compile(bad);
  REQUIRE_FALSE(compiled.ok());
  CHECK(compiled.error().code == ErrorCode::kRefusedConfig);
  const Fixture endless(R"({"target_modules":"(a+)+[bc]"})");
  CHECK_FALSE(endless.targeting.verdict(std::string(4000, 'a')).ok());
}
