#include "tftf/lint/config_rules.h"

#include <catch2/catch.hpp>

#include "synthetic_model.h"

using namespace tftf;
using Lines = std::vector<std::string>;

namespace {

constexpr const char* kLlama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":16,"hidden_size":8,
"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":12,"num_hidden_layers":2,
"tie_word_embeddings":false})";

// kLlama with one member more, which counts over an equal one before.
std::string llama_with(std::string member) {
  std::string text = kLlama;
  text.insert(text.size() - 1, "," + member);
  return text;
}

SyntheticModel llama(std::string config = kLlama) {
  SyntheticModel model = synthetic_model(std::move(config), 'A');
  model.add("lm_head.weight", {16, 8});
  return model;
}

// The complete model of `config`, then the rules as if the configuration had been another.
SyntheticModel llama_then(std::string member) {
  SyntheticModel model = llama();
  model.config = llama_with(std::move(member));
  return model;
}

const Diagnostic& only(const Diagnostics& findings, Rule rule) {
  const Diagnostic* found = nullptr;
  for (const Diagnostic& d : findings)
    if (d.rule == rule) {
      REQUIRE(found == nullptr);
      found = &d;
    }
  REQUIRE(found != nullptr);
  return *found;
}

struct Complete {
  const char* type;
  const char* config;
  char group;
  const char* missing;  // a required tensor outside the layers
  const char* layer;    // "STACK.N" and a required tensor of it
  const char* member;
};

constexpr const char* kDecoder =
    R"("vocab_size":16,"hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,
"intermediate_size":12,"num_hidden_layers":3,"tie_word_embeddings":true,"num_experts":3,"num_local_experts":3,
"moe_intermediate_size":6,"shared_expert_intermediate_size":10})";
constexpr const char* kDeepseek =
    R"("vocab_size":16,"hidden_size":8,"num_attention_heads":2,"q_lora_rank":3,"kv_lora_rank":4,"qk_nope_head_dim":4,
"qk_rope_head_dim":2,"v_head_dim":4,"intermediate_size":12,"moe_intermediate_size":6,"n_routed_experts":3,
"n_shared_experts":1,"num_hidden_layers":2})";

const Complete kComplete[] = {
    {"llama", kDecoder, 'A', "model.norm.weight", "model.layers.1", "self_attn.o_proj.weight"},
    {"mistral", kDecoder, 'A', "model.norm.weight", "model.layers.0", "input_layernorm.weight"},
    {"granite", kDecoder, 'A', "model.norm.weight", "model.layers.1", "mlp.up_proj.weight"},
    {"smollm3", kDecoder, 'A', "model.embed_tokens.weight", "model.layers.1", "mlp.up_proj.weight"},
    {"gemma", kDecoder, 'A', "model.norm.weight", "model.layers.1", "mlp.up_proj.weight"},
    {"qwen2", kDecoder, 'A', "model.norm.weight", "model.layers.2", "self_attn.k_proj.bias"},
    {"qwen3", kDecoder, 'A', "model.norm.weight", "model.layers.2", "self_attn.k_norm.weight"},
    {"gemma2", kDecoder, 'A', "model.norm.weight", "model.layers.2", "pre_feedforward_layernorm.weight"},
    {"gemma3_text", kDecoder, 'A', "model.norm.weight", "model.layers.2", "self_attn.q_norm.weight"},
    {"phi3", kDecoder, 'A', "model.norm.weight", "model.layers.2", "mlp.gate_up_proj.weight"},
    {"mixtral", kDecoder, 'B', "model.norm.weight", "model.layers.2", "block_sparse_moe.experts.1.w3.weight"},
    {"qwen3_moe", kDecoder, 'B', "model.norm.weight", "model.layers.2", "mlp.experts.2.up_proj.weight"},
    {"qwen3_moe", kDecoder, 'A', "model.norm.weight", "model.layers.2", "mlp.up_proj.weight"},
    {"qwen2_moe", kDecoder, 'B', "model.norm.weight", "model.layers.2", "mlp.gate.weight"},
    {"deepseek_v3", kDeepseek, 'B', "model.norm.weight", "model.layers.1", "self_attn.kv_b_proj.weight"},
    {"gpt2", R"("vocab_size":16,"n_embd":8,"n_positions":10,"n_layer":2})", 'A', "wpe.weight", "h.1",
     "attn.c_attn.bias"},
    {"gpt_neox", kDecoder, 'A', "gpt_neox.final_layer_norm.bias", "gpt_neox.layers.0",
     "attention.dense.weight"},
    {"bloom", R"("vocab_size":16,"hidden_size":8,"n_layer":2})", 'A', "word_embeddings_layernorm.weight",
     "h.1", "self_attention.dense.bias"},
    {"opt",
     R"("vocab_size":16,"hidden_size":8,"max_position_embeddings":10,"ffn_dim":12,"num_attention_heads":2,
"num_hidden_layers":2})",
     'A', "model.decoder.embed_positions.weight", "model.decoder.layers.0", "fc2.bias"},
    {"bert",
     R"("vocab_size":16,"hidden_size":8,"max_position_embeddings":10,"type_vocab_size":2,"intermediate_size":12,
"num_hidden_layers":2})",
     'A', "embeddings.token_type_embeddings.weight", "encoder.layer.1", "output.LayerNorm.bias"},
    {"t5", R"("vocab_size":16,"d_model":8,"num_heads":2,"d_kv":4,"d_ff":12,"num_layers":2})", 'A',
     "shared.weight", "decoder.block.1", "layer.1.EncDecAttention.k.weight"},
    {"t5",
     R"("vocab_size":16,"d_model":8,"num_heads":2,"d_kv":4,"d_ff":12,"num_layers":2,"num_decoder_layers":3})",
     'B', "encoder.final_layer_norm.weight", "decoder.block.2", "layer.2.DenseReluDense.wi_1.weight"},
    {"mamba",
     R"("vocab_size":16,"hidden_size":8,"expand":2,"state_size":4,"conv_kernel":3,"time_step_rank":"auto",
"num_hidden_layers":2})",
     'A', "backbone.norm_f.weight", "backbone.layers.1", "mixer.A_log"},
};

}  // namespace

TEST_CASE("a complete model of each family has no finding, and a missing tensor is named") {
  std::vector<std::string_view> seen;
  for (const Complete& one : kComplete) {
    INFO(one.type << " " << one.group);
    seen.push_back(one.type);
    const std::string config = std::string(R"({"model_type":")") + one.type + "\"," + one.config;
    CHECK(synthetic_model(config, one.group).report() == Lines{});
    {
      SyntheticModel model = synthetic_model(config, one.group);
      model.drop(one.missing);
      CHECK(model.report() == Lines{std::string("CF027 ") + one.missing});
    }
    SyntheticModel model = synthetic_model(config, one.group);
    model.drop(std::string(one.layer) + "." + one.member);
    CHECK(model.report() == Lines{std::string("CF014 ") + one.layer});
    CHECK(message(only(model.check(), Rule::CF014)).find(one.member) != std::string::npos);
    model.input.incomplete = true;
    CHECK(model.report() == Lines{});
  }
  for (std::string_view type : config_families())
    CHECK(std::find(seen.begin(), seen.end(), type) != seen.end());
}

TEST_CASE("optional tensors are checked when stored, and skipped where their value is absent") {
  for (const Complete& one : kComplete) {
    INFO(one.type);
    const std::string config = std::string(R"({"model_type":")") + one.type + "\"," + one.config;
    SyntheticModel model = synthetic_model(config, one.group, true);
    for (const std::string& line : model.report()) CHECK(line.substr(0, 5) == "CF021");
  }
  SyntheticModel model = synthetic_model(
      std::string(R"({"model_type":"deepseek_v3","tie_word_embeddings":true,)") + kDeepseek, 'B', true);
  model.drop("lm_head.weight");
  model.config.insert(model.config.size() - 1, R"(,"q_lora_rank":null)");
  CHECK(model.report() == Lines{});
}

TEST_CASE("CF001: config.json is a JSON object") {
  SyntheticModel model = llama();
  for (const char* text : {"", "[1]", "\"a\"", "{\"a\":1,}", "\xEF\xBB\xBF{}", "<html>", "{\"a\":\"\xFF\"}",
                           "version https://git-lfs.github.com/spec/v1\n"}) {
    INFO(text);
    model.config = text;
    CHECK(model.report() == Lines{"CF001"});
  }
  CHECK(message(only(model.check(), Rule::CF001)) ==
        "config.json: not a JSON object: it is a Git LFS pointer.");
  model.input.unreadable = "permission denied";
  CHECK(model.report() == Lines{"CF001"});
  // NaN and unpaired surrogates are what Python reads.
  model = llama_then(R"("x":NaN,"y":"\ud800")");
  CHECK(model.report() == Lines{});
}

TEST_CASE("CF002: weights of a model want a config.json") {
  ConfigInput input;
  input.folder = "sub/";
  CHECK(check_config(input).empty());
  input.has_model_file = input.has_checked_file = true;
  REQUIRE(check_config(input).size() == 1);
  CHECK(message(check_config(input)[0]) == "sub/: no config.json; shape checks skipped.");
  input.folder = "";
  CHECK(check_config(input)[0].file == ".");
  input.has_model_index = true;
  CHECK(check_config(input).empty());
  input.has_model_index = false;
  input.adapter_folder = true;
  CHECK(check_config(input).empty());
}

TEST_CASE("CF003: model_type has a table") {
  CHECK(llama_then(R"("model_type":"zebra")").report() == Lines{"CF003"});
  CHECK(llama_then(R"("model_type":null)").report() == Lines{"CF003"});
  SyntheticModel model = llama_then(R"("model_type":7)");
  CHECK(model.report() == Lines{"CF003"});
  // Without a weight file only CF001 is evaluated.
  model.input.config_text = model.config;
  model.input.has_checked_file = false;
  CHECK(check_config(model.input).empty());
}

TEST_CASE("CF004: needed values are positive integers, and stop the family checks") {
  for (const char* value : {"\"8\"", "8.0", "0", "-8", "null", "[8]", "true", "99999999999999999999"}) {
    INFO(value);
    CHECK(llama_then(std::string("\"hidden_size\":") + value).report() == Lines{"CF004 hidden_size"});
  }
  SyntheticModel model = llama();
  model.config = R"({"model_type":"llama"})";
  CHECK(model.report() == Lines{"CF004 hidden_size", "CF004 intermediate_size", "CF004 num_attention_heads",
                                "CF004 num_hidden_layers", "CF004 vocab_size"});
  CHECK(message(only(llama_then(R"("vocab_size":null)").check(), Rule::CF004)) ==
        "config.json: \"vocab_size\" is missing; a positive integer is expected.");
  // A value with a fall-back may be absent, but not wrong.
  CHECK(llama_then(R"("num_key_value_heads":"1")").report() == Lines{"CF004 num_key_value_heads"});
  // Values of optional tensors and of groups that are not stored may be anything.
  const std::string moe = std::string(R"({"model_type":"qwen3_moe",)") + kDecoder;
  model = synthetic_model(moe, 'B');
  model.config.insert(model.config.size() - 1, R"(,"intermediate_size":null)");
  CHECK(model.report() == Lines{});
  model.config.insert(model.config.size() - 1, R"(,"num_experts":"3")");
  CHECK(model.report() == Lines{"CF004 num_experts"});
  // As transformers 5 saves the key.
  model = synthetic_model(moe, 'B');
  model.config.insert(model.config.size() - 1, R"(,"num_experts":null)");
  CHECK(model.report() == Lines{});
  model.config.insert(model.config.size() - 1, R"(,"num_local_experts":null)");
  CHECK(model.report() == Lines{"CF004 num_experts"});
}

TEST_CASE("CF005: heads divide what they have to") {
  SyntheticModel model =
      synthetic_model(llama_with(R"("num_attention_heads":3,"num_key_value_heads":2)"), 'A');
  model.add("lm_head.weight", {16, 8});
  CHECK(model.report() == Lines{"CF005", "CF005"});
  model = synthetic_model(llama_with(R"("num_attention_heads":3,"num_key_value_heads":3,"head_dim":4)"), 'A');
  model.add("lm_head.weight", {16, 8});
  CHECK(model.report() == Lines{});
}

TEST_CASE("CF010, CF011, CF015, CF016, CF018: one finding per rule, first tensor by bytes, all counted") {
  const Diagnostics vocab = llama_then(R"("vocab_size":14)").check();
  CHECK(message(only(vocab, Rule::CF010)) ==
        "config.json: vocab_size is 14, \"lm_head.weight\" has 16 rows (2 tensors differ).");
  CHECK(only(vocab, Rule::CF010).pointer == "/vocab_size");
  SyntheticModel model = llama();
  model.at("model.layers.1.self_attn.q_proj.weight").shape = {8, 9};
  CHECK(model.report() == Lines{"CF011 model.layers.1.self_attn.q_proj.weight"});
  model.at("model.layers.1.self_attn.q_proj.weight").shape = {9, 8};
  CHECK(model.report() == Lines{"CF015 model.layers.1.self_attn.q_proj.weight"});
  // One tensor may break two rules, and counts once where it breaks one twice.
  model.at("model.layers.1.self_attn.q_proj.weight").shape = {9, 9};
  CHECK(model.report() == Lines{"CF011 model.layers.1.self_attn.q_proj.weight",
                                "CF015 model.layers.1.self_attn.q_proj.weight"});
  CHECK(llama_then(R"("intermediate_size":13)").report() ==
        Lines{"CF016 model.layers.0.mlp.down_proj.weight"});
  CHECK(message(only(llama_then(R"("num_key_value_heads":2)").check(), Rule::CF015)) ==
        "config.json: \"model.layers.0.self_attn.k_proj.weight\" has 4, heads/kv heads/head_dim give 8 (4 "
        "tensors "
        "differ).");
  // Derived names stand as their keys; a product beyond 64 bits is a mismatch, not a wrapped number.
  const Diagnostics wide = llama_then(R"("num_key_value_heads":4611686018427387904,"head_dim":8)").check();
  CHECK(message(only(wide, Rule::CF015)).find("give more than 18446744073709551615") != std::string::npos);
  model = synthetic_model(R"({"model_type":"opt","vocab_size":16,"hidden_size":8,"max_position_embeddings":10,
    "ffn_dim":12,"num_hidden_layers":1})",
                          'A');
  model.at("model.decoder.embed_positions.weight").shape = {10, 8};
  CHECK(message(only(model.check(), Rule::CF018)) ==
        "config.json: \"max_position_embeddings+2\" is 12, \"model.decoder.embed_positions.weight\" has 10.");
  // A fixed dimension is checked by the rule of its tensor.
  model = synthetic_model(R"({"model_type":"mamba","vocab_size":16,"hidden_size":8,"expand":2,"state_size":4,
    "conv_kernel":3,"num_hidden_layers":1})",
                          'A');
  model.at("backbone.layers.0.mixer.conv1d.weight").shape = {16, 2, 3};
  CHECK(model.report() == Lines{"CF016 backbone.layers.0.mixer.conv1d.weight"});
}

TEST_CASE("CF012, CF013, CF014: layers are as many as configured, and whole") {
  CHECK(llama_then(R"("num_hidden_layers":3)").report() == Lines{"CF012 model.layers."});
  CHECK(llama_then(R"("num_hidden_layers":1)").report() == Lines{"CF013 model.layers."});
  CHECK(llama_then(R"("num_hidden_layers":1,"num_nextn_predict_layers":1)").report() == Lines{});
  // A next-token layer may hold anything; what lies behind it may not.
  SyntheticModel model = llama_then(R"("num_nextn_predict_layers":1)");
  model.add("model.layers.2.eh_proj.weight", {8, 16});
  CHECK(model.report() == Lines{});
  model.add("model.layers.3.eh_proj.weight", {8, 16});
  CHECK(model.report() == Lines{"CF013 model.layers.", "CF026 model.layers.3.eh_proj.weight"});
  // A skipped layer, and a number too large to be walked.
  model = llama_then(R"("num_hidden_layers":4)");
  model.add("model.layers.3.input_layernorm.weight", {8});
  CHECK(model.report() == Lines{"CF014 model.layers.2", "CF014 model.layers.3"});
  model = llama_then(R"("num_hidden_layers":4000000000)");
  model.add("model.layers.999999999.input_layernorm.weight", {8});
  const Diagnostics many = model.check();
  CHECK(many.size() == 1 + 1000 + 1);
  // No layer at all.
  model = llama();
  model.tensors.resize(2);
  CHECK(message(only(model.check(), Rule::CF012)) ==
        "config.json: \"num_hidden_layers\" is 2, the weights hold 0 layers.");
  // An encoder without its decoder is complete.
  model = synthetic_model(
      R"({"model_type":"t5","vocab_size":16,"d_model":8,"num_heads":2,"d_kv":4,"d_ff":12,"num_layers":2})",
      'A');
  model.tensors.erase(std::remove_if(model.tensors.begin(), model.tensors.end(),
                                     [](const auto& t) { return t.name.substr(0, 8) == "decoder."; }),
                      model.tensors.end());
  CHECK(model.report() == Lines{});
}

TEST_CASE("CF014: one group is enough, and the group that is begun is asked for") {
  const std::string config = std::string(R"({"model_type":"qwen3_moe",)") + kDecoder;
  SyntheticModel model = synthetic_model(config, 'B');
  // The first layer dense, as such models have it.
  for (const SyntheticTensor& t : synthetic_model(config, 'A').tensors)
    if (t.name.find("layers.0.mlp.") != std::string::npos) model.tensors.push_back(t);
  model.tensors.erase(std::remove_if(model.tensors.begin(), model.tensors.end(),
                                     [](const auto& t) {
                                       return t.name.find("layers.0.mlp.gate.") != std::string::npos ||
                                              t.name.find("layers.0.mlp.experts") != std::string::npos;
                                     }),
                      model.tensors.end());
  CHECK(model.report() == Lines{});
  model.drop("model.layers.0.mlp.up_proj.weight");
  CHECK(message(only(model.check(), Rule::CF014)) == "config.json: layer 0 lacks mlp.up_proj.weight.");
  model = synthetic_model(config, 'B');
  model.drop("model.layers.1.mlp.gate.weight");
  CHECK(message(only(model.check(), Rule::CF014)) == "config.json: layer 1 lacks mlp.gate.weight.");
  for (int e = 0; e < 3; ++e)
    for (const char* part : {"gate", "up", "down"})
      model.drop("model.layers.1.mlp.experts." + std::to_string(e) + "." + part + "_proj.weight");
  CHECK(message(only(model.check(), Rule::CF014)) ==
        "config.json: layer 1 lacks mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight.");
}

TEST_CASE("CF017: routers first, then the experts' numbers") {
  const std::string config = std::string(R"({"model_type":"mixtral",)") + kDecoder;
  SyntheticModel model = synthetic_model(config, 'B');
  model.config.insert(model.config.size() - 1, R"(,"num_local_experts":4)");
  CHECK(model.report() == Lines{"CF017 model.layers.0.block_sparse_moe.gate.weight"});
  // The routers agree, an expert is missing in one layer.
  model = synthetic_model(config, 'B');
  for (const char* w : {"w1", "w2", "w3"})
    model.drop("model.layers.1.block_sparse_moe.experts.2." + std::string(w) + ".weight");
  CHECK(model.report() == Lines{"CF017 model.layers.1.block_sparse_moe.experts"});
  CHECK(message(only(model.check(), Rule::CF017)) ==
        "config.json: \"num_local_experts\" is 3, found 2 (\"model.layers.1.block_sparse_moe.experts\").");
  model.input.incomplete = true;
  CHECK(model.report() == Lines{});
  // As many, but with another number.
  model.input.incomplete = false;
  for (const auto& [w, shape] : {std::pair{"w1", Shape{12, 8}}, {"w2", Shape{8, 12}}, {"w3", Shape{12, 8}}})
    model.add("model.layers.1.block_sparse_moe.experts.7." + std::string(w) + ".weight", shape);
  CHECK(message(only(model.check(), Rule::CF017)).find("found 3 with numbers up to 7") != std::string::npos);
  model.input.incomplete = true;
  CHECK(model.report() == Lines{"CF017 model.layers.1.block_sparse_moe.experts"});
}

TEST_CASE("CF019: a known tensor has its family's rank") {
  SyntheticModel model = llama();
  model.at("model.layers.0.mlp.up_proj.weight").shape = {96};
  model.at("model.norm.weight").shape = {1, 8};
  CHECK(model.report() == Lines{"CF019 model.layers.0.mlp.up_proj.weight", "CF019 model.norm.weight"});
  CHECK(message(only(Diagnostics{model.check()[0]}, Rule::CF019)) ==
        "config.json: \"model.norm.weight\" has shape [1, 8]; rank 1 is expected.");
}

TEST_CASE("CF020 to CF023: the head, tied or not") {
  SyntheticModel model = llama();
  model.drop("lm_head.weight");
  CHECK(model.report() == Lines{"CF020 lm_head.weight"});
  model.config = llama_with(R"("tie_word_embeddings":null)");
  CHECK(model.report() == Lines{"CF020 lm_head.weight"});
  model.config = llama_with(R"("tie_word_embeddings":true)");
  CHECK(model.report() == Lines{"CF022 lm_head.weight"});
  model.config = llama_with(R"("tie_word_embeddings":null,"model_type":"gemma")");
  CHECK(model.report() == Lines{"CF023 lm_head.weight"});
  CHECK(message(only(model.check(), Rule::CF023)) ==
        "config.json: tie_word_embeddings is absent; gemma defaults to tied.");
  // A value that says neither decides nothing.
  model.config = llama_with(R"("tie_word_embeddings":"yes")");
  CHECK(model.report() == Lines{});
  // No head is expected of a bare model, nor while files are missing.
  model.config = llama_with(R"("architectures":["LlamaModel"])");
  CHECK(model.report() == Lines{});
  model.config = kLlama;
  model.input.incomplete = true;
  CHECK(model.report() == Lines{});
  for (const char* name : {"GPT2LMHeadModel", "T5ForConditionalGeneration"}) {
    model = llama_then(std::string(R"("architectures":[")") + name + "\"]");
    model.drop("lm_head.weight");
    CHECK(model.report() == Lines{"CF020 lm_head.weight"});
  }
  CHECK(llama_then(R"("tie_word_embeddings":true)").report() == Lines{"CF021 lm_head.weight"});
  CHECK(llama_then(R"("tie_word_embeddings":null,"model_type":"gemma")").report() ==
        Lines{"CF021 lm_head.weight"});
}

TEST_CASE("CF024 and CF031: head and embedding") {
  std::optional<TiedTensors> tied;
  SyntheticModel model = llama_then(R"("tie_word_embeddings":true)");
  model.check(&tied);
  REQUIRE(tied);
  CHECK(model.tensors[tied->head].name == "lm_head.weight");
  CHECK(model.tensors[tied->embedding].name == "model.embed_tokens.weight");
  const Diagnostic differs = tied_head_differs("config.json", "lm_head.weight", "model.embed_tokens.weight");
  CHECK(differs.subject == "lm_head.weight");
  CHECK(message(differs) ==
        "config.json: \"lm_head.weight\" differs from \"model.embed_tokens.weight\" although the "
        "embeddings are declared tied; transformers 5 uses the stored head, transformers 4 and vLLM the "
        "embedding.");
  tied.reset();
  llama().check(&tied);
  CHECK_FALSE(tied);
  model.at("lm_head.weight").shape = {15, 8};
  CHECK(model.check(&tied).size() == 3);
  CHECK_FALSE(tied);
  CHECK(model.report() == Lines{"CF010 lm_head.weight", "CF021 lm_head.weight", "CF024 lm_head.weight"});
}

TEST_CASE("CF025: the declared dtype is the one of most bytes") {
  auto found = [](std::string member) { return llama_then(std::move(member)).report(); };
  CHECK(found(R"("torch_dtype":"float32")") == Lines{"CF025"});
  CHECK(found(R"("torch_dtype":"torch.float16")") == Lines{"CF025"});
  CHECK(found(R"("torch_dtype":"bfloat16")") == Lines{});
  CHECK(found(R"("torch_dtype":"float32","dtype":"bfloat16")") == Lines{});
  CHECK(found(R"("torch_dtype":"bfloat16","dtype":"float32")") == Lines{"CF025"});
  CHECK(found(R"("torch_dtype":"float32","dtype":null)") == Lines{"CF025"});
  CHECK(found(R"("torch_dtype":"auto")") == Lines{});
  CHECK(found(R"("torch_dtype":7)") == Lines{});
  CHECK(found(R"("torch_dtype":"float32","quantization_config":{})") == Lines{"CF029"});
  CHECK(message(only(llama_then(R"("torch_dtype":"torch.float16")").check(), Rule::CF025)) ==
        "config.json: \"torch_dtype\" is torch.float16, most weights are BF16.");
  SyntheticModel model;
  model.config = R"({"torch_dtype":"float16"})";
  model.add("a", {4}, DType::F32);
  model.add("b", {8}, DType::F16);
  CHECK(model.report() == Lines{"CF003"});
  model.add("c", {1}, DType::F32);
  CHECK(model.report() == Lines{"CF003", "CF025"});
  model.add("d", {100}, DType::I64);
  CHECK(model.report() == Lines{"CF003", "CF025"});
}

TEST_CASE("CF026, CF028, CF033: names outside the table") {
  SyntheticModel model = llama();
  model.add("model.vision.weight", {8});
  model.add("a.weight", {8});
  model.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4});
  model.add("model.layers.01.input_layernorm.weight", {8});
  CHECK(model.report() == Lines{"CF026 a.weight", "CF033 model.layers.0.self_attn.rotary_emb.inv_freq"});
  CHECK(message(only(model.check(), Rule::CF026)) ==
        "config.json: 3 tensors are unknown for llama, first \"a.weight\".");
  for (const char* prefix :
       {"module.", "_orig_mod.", "base_model.model.", "model.", "_fsdp_wrapped_module."}) {
    INFO(prefix);
    SyntheticModel wrapped = llama();
    wrapped.drop("model.norm.weight");
    for (SyntheticTensor& t : wrapped.tensors) t.name = prefix + t.name;
    CHECK(wrapped.report() == Lines{std::string("CF028 ") + prefix});
    wrapped.config = llama_with(R"("vocab_size":15)");
    CHECK(wrapped.report() ==
          Lines{std::string("CF010 ") + prefix + "lm_head.weight", std::string("CF028 ") + prefix});
    // One name that fits as it is, or one that does not fit without the prefix: no wrapper.
    wrapped.add("odd.weight", {8});
    const Lines odd = wrapped.report();
    CHECK(
        std::none_of(odd.begin(), odd.end(), [](const std::string& l) { return l.substr(0, 5) == "CF028"; }));
  }
}

TEST_CASE("an optional prefix is part of the names") {
  SyntheticModel model = synthetic_model(
      R"({"model_type":"gpt2","vocab_size":16,"n_embd":8,"n_positions":10,"n_layer":2})", 'A');
  for (SyntheticTensor& t : model.tensors) t.name = "transformer." + t.name;
  model.add("transformer.h.0.attn.bias", {1, 1, 10, 10});
  CHECK(model.report() == Lines{"CF033 transformer.h.0.attn.bias"});
  model.drop("transformer.ln_f.bias");
  model.drop("transformer.h.1.ln_1.weight");
  CHECK(model.report() ==
        Lines{"CF014 transformer.h.1", "CF027 transformer.ln_f.bias", "CF033 transformer.h.0.attn.bias"});
}

TEST_CASE("CF029: quantised models keep their names, not their shapes") {
  SyntheticModel model = llama_then(R"("quantization_config":{"quant_method":"gptq"})");
  model.drop("model.layers.0.mlp.up_proj.weight");
  for (const char* part : {"qweight", "qzeros", "scales", "g_idx"})
    model.add(std::string("model.layers.0.mlp.up_proj.") + part, {3, 5}, DType::I32);
  model.at("model.layers.0.mlp.down_proj.weight") = {
      "model.layers.0.mlp.down_proj.weight", {1, 48}, DType::U8};
  model.add("model.layers.0.mlp.down_proj.weight.absmax", {2}, DType::F32);
  CHECK(model.report() == Lines{"CF029"});
  CHECK(message(only(model.check(), Rule::CF029)) ==
        "config.json: quantization_config (gptq) present; integer tensors are left out of the shape checks.");
  // Floating tensors are still checked.
  model.at("model.norm.weight").shape = {9};
  CHECK(model.report() == Lines{"CF011 model.norm.weight", "CF029"});
  model.config = kLlama;
  const Lines plain = model.report();
  CHECK(std::count(plain.begin(), plain.end(), "CF029") == 0);
  CHECK(std::count(plain.begin(), plain.end(), "CF014 model.layers.0") == 1);
  CHECK(llama_then(R"("quantization":{"bits":4})").report() == Lines{"CF029"});
}

TEST_CASE("CF030: token ids lie below the embedding rows") {
  SyntheticModel model = llama();
  auto check = [&](const char* text) {
    model.input.tokenizer_text = text;
    return model.report();
  };
  CHECK(check(R"({"model":{"vocab":{"a":0,"b":15}},"added_tokens":[{"id":15,"content":"c"}]})") == Lines{});
  CHECK(
      check(
          R"({"model":{"vocab":{"a":16,"b":17}},"added_tokens":[{"content":"c","id":99,"special":true}]})") ==
      Lines{"CF030 a", "CF030 b", "CF030 c"});
  // The same token in both lists, a token given twice, and the last of equal keys.
  CHECK(check(R"({"added_tokens":[{"id":16,"content":"a"}],"model":{"vocab":{"a":16,"a":17}}})") ==
        Lines{"CF030 a"});
  CHECK(check(R"({"model":{"vocab":{"a":99}},"model":{"vocab":{"b":1}}})") == Lines{});
  // Unigram: by position.
  CHECK(
      check(
          R"({"model":{"vocab":[["<a>",0],["<b>",-1.5],["c",0],["d",0],["e",0],["f",0],["g",0],["h",0],["i",0],
    ["j",0],["k",0],["l",0],["m",0],["n",0],["o",0],["p",0],["q",-3],["r",0]]}})") ==
      Lines{"CF030 q", "CF030 r"});
  // Merges, nested things and a broken file say nothing.
  CHECK(
      check(
          R"({"model":{"merges":[["a","b"]],"x":{"vocab":{"a":99}}},"y":{"added_tokens":[{"id":99,"content":"z"}]}})") ==
      Lines{});
  CHECK(check(R"({"model":{"vocab":{"a":99}},)") == Lines{});
  model.at("model.embed_tokens.weight").shape = {128};
  const Lines flat = check(R"({"model":{"vocab":{"a":99}}})");
  CHECK(flat == Lines{"CF019 model.embed_tokens.weight", "CF024 lm_head.weight"});
}

TEST_CASE("CF034: transformers takes four formats") {
  SyntheticModel model = llama();
  std::vector<ConfigWeightFile> files = {{"a.safetensors", true, "pt"},
                                         {"b.safetensors", true, "mlx"},
                                         {"c.safetensors", false, std::nullopt},
                                         {"d.safetensors", true, "np"},
                                         {"e.safetensors", true, std::nullopt}};
  model.input.files = files;
  const Diagnostics found = model.check();
  REQUIRE(found.size() == 2);
  CHECK(found[0].file == "d.safetensors");
  CHECK(message(found[1]) == "e.safetensors: metadata format is missing; transformers refuses the file.");
  model.input.is_colibri = true;
  CHECK(model.check().empty());
  model.input.is_colibri = false;
  model.config = R"({"hidden_size":8})";
  CHECK(model.report() == Lines{"CF003"});
}

TEST_CASE("ninety thousand tensors are checked in a moment") {
  SyntheticModel model = synthetic_model(
      R"({"model_type":"deepseek_v3","architectures":["DeepseekV3ForCausalLM"],"vocab_size":129280,"hidden_size":7168,
"num_attention_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
"intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_hidden_layers":61,
"quantization_config":{"quant_method":"fp8"}})",
      'B', true);
  const size_t count = model.tensors.size();
  for (size_t i = 0; i < count; ++i)
    if (model.tensors[i].shape.size() == 2)
      model.add(model.tensors[i].name + "_scale_inv", {1, 1}, DType::F32);
  REQUIRE(model.tensors.size() > 90000);
  CHECK(model.report() == Lines{"CF029"});
}
