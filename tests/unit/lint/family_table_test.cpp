#include "lint/config/family_table.h"

#include <catch2/catch.hpp>
#include <set>

#include "synthetic_model.h"

using namespace tftf;

TEST_CASE("the family tables hold what the specification lists") {
  CHECK(config_families() ==
        std::vector<std::string_view>{
            "llama",  "mistral",     "granite", "smollm3", "gemma",     "qwen2",     "qwen3",
            "gemma2", "gemma3_text", "phi3",    "mixtral", "qwen3_moe", "qwen2_moe", "deepseek_v3",
            "gpt2",   "gpt_neox",    "bloom",   "opt",     "bert",      "t5",        "mamba"});
  std::set<std::string_view> tied;
  for (std::string_view type : config_families())
    if (find_family(type).tied) tied.insert(type);
  CHECK(tied == std::set<std::string_view>{"gemma", "gemma2", "gemma3_text", "gpt2", "bloom", "opt", "bert",
                                           "t5", "mamba"});
  CHECK(find_family("llama4").family == nullptr);
  CHECK(find_family("").family == nullptr);
}

TEST_CASE("every entry of the family tables is well formed") {
  for (const Family& family : families()) {
    INFO(family.types[0]);
    auto check = [&](const FamilyNames& names) {
      CHECK(names.entries.size() <= 64);
      CHECK(names.by_name.size() == names.entries.size());
      for (const FamilyEntry& entry : names.entries) {
        INFO(entry.name);
        CHECK(entry.name.find_first_of(" {}[](),;") == std::string_view::npos);
        CHECK((entry.shape.size() >= 1 && entry.shape.size() <= 3));
        CHECK((entry.group == 0 || entry.group == 'A' || entry.group == 'B'));
        for (const FamilyDimension& d : entry.shape)
          CHECK((d.symbol == FamilyDimension::kLiteral ? d.literal == 1 : d.symbol < family.symbols.size()));
      }
    };
    check(family.top);
    CHECK(family.top.by_name.count(family.embedding) == 1);
    CHECK((family.head.empty() || family.top.by_name.count(family.head) == 1));
    for (const FamilyStack& stack : family.stacks) {
      CHECK(stack.prefix.back() == '.');
      check(stack.names);
      check(stack.experts);
      CHECK(stack.expert_prefix.empty() == stack.experts.entries.empty());
    }
    for (const FamilySymbol& symbol : family.symbols)
      CHECK(symbol.expression.find_first_not_of(
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+*/()") ==
            std::string_view::npos);
  }
}

namespace {

// Shapes of released models, as their files hold them.
struct Released {
  const char* config;
  std::vector<std::pair<const char*, Shape>> shapes;
};

const Released kReleased[] = {
    {R"({"model_type":"llama","vocab_size":128256,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
         "intermediate_size":14336,"num_hidden_layers":32})",
     {{"model.layers.31.self_attn.k_proj.weight", {1024, 4096}},
      {"model.layers.0.mlp.down_proj.weight", {4096, 14336}},
      {"lm_head.weight", {128256, 4096}}}},
    {R"({"model_type":"mistral","vocab_size":131072,"hidden_size":5120,"num_attention_heads":32,"num_key_value_heads":8,
         "head_dim":128,"intermediate_size":14336,"num_hidden_layers":40})",
     {{"model.layers.39.self_attn.q_proj.weight", {4096, 5120}},
      {"model.layers.0.self_attn.o_proj.weight", {5120, 4096}}}},
    {R"({"model_type":"qwen2","vocab_size":151936,"hidden_size":896,"num_attention_heads":14,"num_key_value_heads":2,
         "intermediate_size":4864,"num_hidden_layers":24})",
     {{"model.layers.0.self_attn.k_proj.bias", {128}},
      {"model.layers.23.self_attn.v_proj.weight", {128, 896}}}},
    {R"({"model_type":"qwen3","vocab_size":151936,"hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":8,
         "head_dim":128,"intermediate_size":3072,"num_hidden_layers":28})",
     {{"model.layers.27.self_attn.q_norm.weight", {128}},
      {"model.layers.0.self_attn.q_proj.weight", {2048, 1024}}}},
    {R"({"model_type":"gemma2","vocab_size":256000,"hidden_size":2304,"num_attention_heads":8,"num_key_value_heads":4,
         "head_dim":256,"intermediate_size":9216,"num_hidden_layers":26})",
     {{"model.layers.25.pre_feedforward_layernorm.weight", {2304}},
      {"model.layers.0.self_attn.q_proj.weight", {2048, 2304}}}},
    {R"({"model_type":"gemma3_text","vocab_size":262144,"hidden_size":1152,"num_attention_heads":4,"num_key_value_heads":1,
         "head_dim":256,"intermediate_size":6912,"num_hidden_layers":26})",
     {{"model.layers.0.self_attn.k_norm.weight", {256}},
      {"model.layers.0.self_attn.v_proj.weight", {256, 1152}}}},
    {R"({"model_type":"phi3","vocab_size":32064,"hidden_size":3072,"num_attention_heads":32,"num_key_value_heads":32,
         "intermediate_size":8192,"num_hidden_layers":32})",
     {{"model.layers.0.self_attn.qkv_proj.weight", {9216, 3072}},
      {"model.layers.0.mlp.gate_up_proj.weight", {16384, 3072}}}},
    {R"({"model_type":"mixtral","vocab_size":32000,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
         "num_local_experts":8,"intermediate_size":14336,"num_hidden_layers":32})",
     {{"model.layers.3.block_sparse_moe.gate.weight", {8, 4096}},
      {"model.layers.3.block_sparse_moe.experts.7.w2.weight", {4096, 14336}}}},
    {R"({"model_type":"qwen3_moe","vocab_size":151936,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,
         "head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_hidden_layers":48})",
     {{"model.layers.47.mlp.experts.127.down_proj.weight", {2048, 768}},
      {"model.layers.0.mlp.gate.weight", {128, 2048}}}},
    {R"({"model_type":"qwen2_moe","vocab_size":151936,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,
         "intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,
         "num_hidden_layers":24})",
     {{"model.layers.0.mlp.shared_expert_gate.weight", {1, 2048}},
      {"model.layers.0.mlp.shared_expert.down_proj.weight", {2048, 5632}}}},
    {R"({"model_type":"deepseek_v3","vocab_size":129280,"hidden_size":7168,"num_attention_heads":128,"q_lora_rank":1536,
         "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"intermediate_size":18432,
         "moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_hidden_layers":61})",
     {{"model.layers.0.self_attn.q_b_proj.weight", {24576, 1536}},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", {576, 7168}},
      {"model.layers.0.self_attn.kv_b_proj.weight", {32768, 512}},
      {"model.layers.60.mlp.gate.e_score_correction_bias", {256}},
      {"model.layers.60.mlp.shared_experts.up_proj.weight", {2048, 7168}},
      {"model.layers.60.mlp.experts.255.up_proj.weight", {2048, 7168}}}},
    {R"({"model_type":"gpt2","vocab_size":50257,"n_embd":768,"n_positions":1024,"n_layer":12})",
     {{"wpe.weight", {1024, 768}},
      {"h.11.attn.c_attn.weight", {768, 2304}},
      {"h.0.mlp.c_fc.weight", {768, 3072}}}},
    {R"({"model_type":"gpt_neox","vocab_size":50304,"hidden_size":512,"intermediate_size":2048,"num_hidden_layers":6})",
     {{"gpt_neox.layers.5.attention.query_key_value.weight", {1536, 512}},
      {"embed_out.weight", {50304, 512}}}},
    {R"({"model_type":"bloom","vocab_size":250880,"n_embed":1024,"n_layer":24})",
     {{"h.23.mlp.dense_h_to_4h.bias", {4096}}, {"h.0.self_attention.query_key_value.bias", {3072}}}},
    {R"({"model_type":"opt","vocab_size":50272,"hidden_size":1024,"word_embed_proj_dim":512,
         "max_position_embeddings":2048,"ffn_dim":4096,"num_hidden_layers":24})",
     {{"model.decoder.embed_positions.weight", {2050, 1024}},
      {"model.decoder.embed_tokens.weight", {50272, 512}},
      {"model.decoder.project_in.weight", {1024, 512}},
      {"model.decoder.project_out.weight", {512, 1024}}}},
    {R"({"model_type":"bert","vocab_size":30522,"hidden_size":768,"max_position_embeddings":512,"type_vocab_size":2,
         "intermediate_size":3072,"num_hidden_layers":12})",
     {{"embeddings.token_type_embeddings.weight", {2, 768}},
      {"encoder.layer.11.output.dense.weight", {768, 3072}}}},
    {R"({"model_type":"t5","vocab_size":32128,"d_model":512,"num_heads":8,"d_kv":64,"d_ff":2048,"num_layers":6})",
     {{"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 8}},
      {"decoder.block.5.layer.1.EncDecAttention.o.weight", {512, 512}},
      {"decoder.block.5.layer.2.DenseReluDense.wi.weight", {2048, 512}}}},
    {R"({"model_type":"mamba","vocab_size":50280,"hidden_size":768,"expand":2,"state_size":16,"conv_kernel":4,
         "time_step_rank":"auto","num_hidden_layers":24})",
     {{"backbone.layers.23.mixer.x_proj.weight", {80, 1536}},
      {"backbone.layers.0.mixer.conv1d.weight", {1536, 1, 4}},
      {"backbone.layers.0.mixer.dt_proj.weight", {1536, 48}},
      {"backbone.layers.0.mixer.in_proj.weight", {3072, 768}}}},
};

}  // namespace

TEST_CASE("the family tables give the shapes of released models") {
  std::set<const Family*> seen;
  for (const Released& released : kReleased) {
    INFO(released.config);
    const JsonDocument config = parse_json(released.config, JsonDialect::kPython);
    seen.insert(find_family(*config.root.string("model_type")).family);
    const char group = std::string(released.config).find("experts") != std::string::npos ? 'B' : 'A';
    SyntheticModel model = synthetic_model(released.config, group, true);
    for (const auto& [name, shape] : released.shapes) {
      INFO(name);
      const auto found = std::find_if(model.tensors.begin(), model.tensors.end(),
                                      [name = name](const SyntheticTensor& t) { return t.name == name; });
      REQUIRE(found != model.tensors.end());
      CHECK(shape_text(found->shape) == shape_text(shape));
    }
  }
  CHECK(seen.size() == families().size());
}
