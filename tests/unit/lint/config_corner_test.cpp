// Configuration rules where weights are missing, fused or stored under the other of two tied names.
#include <catch2/catch.hpp>

#include "synthetic_model.h"

namespace tftf {
namespace {

using CornerLines = std::vector<std::string>;

const std::string kCornerLlama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":96,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":32,)"
    R"("tie_word_embeddings":true})";

const std::string kCornerMoe =
    R"({"model_type":"qwen3_moe","hidden_size":64,"intermediate_size":96,"moe_intermediate_size":24,"head_dim":16,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":32,"num_experts":4,)"
    R"("num_experts_per_tok":2,"tie_word_embeddings":false})";

// The experts of every layer as one tensor, `stored` of them.
SyntheticModel with_fused_experts(uint64_t stored) {
  SyntheticModel model = synthetic_model(kCornerMoe, 'B');
  model.tensors.erase(
      std::remove_if(model.tensors.begin(), model.tensors.end(),
                     [](const auto& t) { return t.name.find(".experts.") != std::string::npos; }),
      model.tensors.end());
  for (int layer = 0; layer < 2; ++layer) {
    const std::string path = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    model.add(path + "gate_up_proj", {stored, 48, 64});
    model.add(path + "down_proj", {stored, 64, 24});
  }
  return model;
}

CornerLines of_rule(SyntheticModel& model, std::string_view rule) {
  CornerLines lines;
  for (const std::string& line : model.report())
    if (line.compare(0, rule.size(), rule) == 0) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a tied model that stores its head alone is told once, as information") {
  SyntheticModel model = synthetic_model(kCornerLlama, 'A');
  model.add("lm_head.weight", {32, 64});
  CHECK(of_rule(model, "CF021") == CornerLines{"CF021 lm_head.weight"});
  model.drop("model.embed_tokens.weight");
  CHECK(model.report() == CornerLines{"CF021 lm_head.weight"});
  const Diagnostics found = model.check();
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kInfo);
  CHECK(message(found[0]).find("the head is the embedding") != std::string::npos);
  // Its rows are the vocabulary then.
  model.input.tokenizer_text = R"({"added_tokens":[{"id":32,"content":"<x>"}]})";
  CHECK(of_rule(model, "CF030") == CornerLines{"CF030 <x>"});
}

TEST_CASE("an untied model without an embedding lacks it, whatever its head") {
  std::string config = kCornerLlama;
  config.replace(config.find("true"), 4, "false");
  SyntheticModel model = synthetic_model(config, 'A');
  model.drop("model.embed_tokens.weight");
  CHECK(of_rule(model, "CF027") == CornerLines{"CF027 model.embed_tokens.weight"});
  CHECK(of_rule(model, "CF021") == CornerLines{});
}

TEST_CASE("fused experts are counted by their first dimension") {
  SyntheticModel right = with_fused_experts(4);
  CHECK(of_rule(right, "CF017") == CornerLines{});
  SyntheticModel wrong = with_fused_experts(3);
  CHECK(of_rule(wrong, "CF017").size() == 1);
  CHECK(of_rule(wrong, "CF017")[0].find("CF017 model.layers.0.mlp.experts.") == 0);
}

TEST_CASE("a configuration is checked also where no weight file can be read") {
  SyntheticModel model;
  model.config =
      R"({"model_type":"llama","hidden_size":"64","intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":3,)"
      R"("num_key_value_heads":2,"vocab_size":32})";
  model.input.incomplete = true;
  CHECK(of_rule(model, "CF004") == CornerLines{"CF004 hidden_size"});
  model.config =
      R"({"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":3,)"
      R"("num_key_value_heads":2,"vocab_size":32})";
  CHECK(of_rule(model, "CF005").size() == 2);
  CHECK(of_rule(model, "CF0") == of_rule(model, "CF005"));
}

TEST_CASE("added tokens without content have ids, too") {
  SyntheticModel model = synthetic_model(kCornerLlama, 'A');
  model.input.tokenizer_text =
      R"({"added_tokens":[{"id":40},{"id":41,"content":null},{"id":31},{"id":42,"content":"<x>"}]})";
  CHECK(of_rule(model, "CF030") == CornerLines{"CF030 ", "CF030 ", "CF030 <x>"});
}

}  // namespace tftf
