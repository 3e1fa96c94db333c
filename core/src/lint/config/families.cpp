// The family tables of spec lint-rules 7. All tensors are required unless marked.
#include "lint/config/family_table.h"

namespace tftf {
namespace {

// Symbols and derived names.
constexpr std::string_view kVocabHidden = "V = vocab_size CF010; H = hidden_size CF011";
constexpr std::string_view kGroupedQuery = "Q = nh*hd CF015; K = nkv*hd CF015";
constexpr std::string_view kFeedForward = "F = intermediate_size CF016";
constexpr std::string_view kHeadDim = "D = hd CF015";
constexpr std::string_view kExperts = "E = num_experts CF017; M = moe_intermediate_size CF016";
constexpr std::string_view kGroupedHeads =
    "nh = num_attention_heads; nkv = num_key_value_heads else num_attention_heads; "
    "hd = head_dim else hidden_size//num_attention_heads";

// Decoder-only models of the llama kind.
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kLayerCount = "num_hidden_layers";
constexpr std::string_view kTop =
    "model.embed_tokens.weight [V,H]; model.norm.weight [H]; lm_head.weight [V,H] optional";
constexpr std::string_view kNorms = "input_layernorm.weight [H]; post_attention_layernorm.weight [H]";
constexpr std::string_view kAttention =
    "self_attn.q_proj.weight [Q,H]; self_attn.k_proj.weight [K,H]; self_attn.v_proj.weight [K,H]; "
    "self_attn.o_proj.weight [H,Q]";
constexpr std::string_view kAttentionBias =
    "self_attn.q_proj.bias [Q] optional; self_attn.k_proj.bias [K] optional; "
    "self_attn.v_proj.bias [K] optional; self_attn.o_proj.bias [H] optional";
constexpr std::string_view kQwen2Bias =
    "self_attn.q_proj.bias [Q]; self_attn.k_proj.bias [K]; self_attn.v_proj.bias [K]; "
    "self_attn.o_proj.bias [H] optional";
constexpr std::string_view kAttentionNorms = "self_attn.q_norm.weight [D]; self_attn.k_norm.weight [D]";
constexpr std::string_view kGatedMlp =
    "mlp.gate_proj.weight [F,H]; mlp.up_proj.weight [F,H]; mlp.down_proj.weight [H,F]; "
    "mlp.gate_proj.bias [F] optional; mlp.up_proj.bias [F] optional; mlp.down_proj.bias [H] optional";
constexpr std::string_view kFeedForwardNorms =
    "pre_feedforward_layernorm.weight [H]; post_feedforward_layernorm.weight [H]";
constexpr std::string_view kDenseOrExperts =
    "mlp.gate_proj.weight [F,H] (group A); mlp.up_proj.weight [F,H] (group A); "
    "mlp.down_proj.weight [H,F] (group A); mlp.gate.weight [E,H] (group B); "
    "mlp.experts.{e}.gate_proj.weight [M,H] per expert; mlp.experts.{e}.up_proj.weight [M,H] per expert; "
    "mlp.experts.{e}.down_proj.weight [H,M] per expert";
// Fused attention of GPT-NeoX and BLOOM.
constexpr std::string_view kFusedNorms =
    "input_layernorm.weight [H]; input_layernorm.bias [H]; post_attention_layernorm.weight [H]; "
    "post_attention_layernorm.bias [H]";

std::vector<FamilyText> make_texts() {
  std::vector<FamilyText> out;
  auto llama_like = [&](std::string_view types, std::vector<std::string_view> symbols,
                        std::vector<std::string_view> layers) {
    symbols.insert(symbols.begin(), kVocabHidden);
    layers.insert(layers.begin(), kNorms);
    out.push_back({types,
                   kHead,
                   kEmbedding,
                   "",
                   "num_attention_heads",
                   std::move(symbols),
                   {kGroupedHeads},
                   {kTop},
                   {{kLayers, kLayerCount, std::move(layers)}}});
  };
  llama_like("llama mistral granite smollm3 gemma*", {kGroupedQuery, kFeedForward},
             {kAttention, kAttentionBias, kGatedMlp});
  llama_like("qwen2", {kGroupedQuery, kFeedForward}, {kAttention, kQwen2Bias, kGatedMlp});
  llama_like("qwen3", {kGroupedQuery, kFeedForward, kHeadDim},
             {kAttention, kAttentionBias, kGatedMlp, kAttentionNorms});
  llama_like("gemma2*", {kGroupedQuery, kFeedForward},
             {kAttention, kAttentionBias, kGatedMlp, kFeedForwardNorms});
  llama_like("gemma3_text*", {kGroupedQuery, kFeedForward, kHeadDim},
             {kAttention, kAttentionBias, kGatedMlp, kAttentionNorms, kFeedForwardNorms});
  llama_like("phi3",
             {"QKV = nh*hd+2*nkv*hd CF015; Q = nh*hd CF015; F2 = 2*intermediate_size CF016", kFeedForward},
             {"self_attn.qkv_proj.weight [QKV,H]; self_attn.o_proj.weight [H,Q]; "
              "mlp.gate_up_proj.weight [F2,H]; mlp.down_proj.weight [H,F]"});
  llama_like("mixtral", {kGroupedQuery, "E = num_local_experts CF017", kFeedForward},
             {kAttention, kAttentionBias,
              "block_sparse_moe.gate.weight [E,H]; block_sparse_moe.experts.{e}.w1.weight [F,H] per expert; "
              "block_sparse_moe.experts.{e}.w2.weight [H,F] per expert; "
              "block_sparse_moe.experts.{e}.w3.weight [F,H] per expert"});
  out.back().stacks[0].renamed = "mlp. block_sparse_moe.";
  llama_like("qwen3_moe", {kGroupedQuery, kHeadDim, kFeedForward, kExperts},
             {kAttention, kAttentionBias, kAttentionNorms, kDenseOrExperts});
  llama_like("qwen2_moe",
             {kGroupedQuery, kFeedForward, kExperts, "S = shared_expert_intermediate_size CF016"},
             {kAttention, kQwen2Bias, kDenseOrExperts,
              "mlp.shared_expert.gate_proj.weight [S,H] optional; "
              "mlp.shared_expert.up_proj.weight [S,H] optional; "
              "mlp.shared_expert.down_proj.weight [H,S] optional; "
              "mlp.shared_expert_gate.weight [1,H] optional"});
  out.push_back(
      {"deepseek_v3",
       kHead,
       kEmbedding,
       "",
       "",
       {kVocabHidden,
        "DQ = nh*(qk_nope_head_dim+qk_rope_head_dim) CF015; QL = q_lora_rank CF015; "
        "KVA = kv_lora_rank+qk_rope_head_dim CF015; KVL = kv_lora_rank CF015; "
        "KVB = nh*(qk_nope_head_dim+v_head_dim) CF015; DV = nh*v_head_dim CF015",
        kFeedForward,
        "E = n_routed_experts CF017; M = moe_intermediate_size CF016; "
        "SH = moe_intermediate_size*n_shared_experts CF016"},
       {"nh = num_attention_heads"},
       {kTop},
       {{kLayers,
         kLayerCount,
         {kNorms,
          "self_attn.q_proj.weight [DQ,H] optional; self_attn.q_a_proj.weight [QL,H] optional; "
          "self_attn.q_a_layernorm.weight [QL] optional; self_attn.q_b_proj.weight [DQ,QL] optional; "
          "self_attn.kv_a_proj_with_mqa.weight [KVA,H]; self_attn.kv_a_layernorm.weight [KVL]; "
          "self_attn.kv_b_proj.weight [KVB,KVL]; self_attn.o_proj.weight [H,DV]",
          kDenseOrExperts,
          "mlp.gate.e_score_correction_bias [E] optional; "
          "mlp.shared_experts.gate_proj.weight [SH,H] optional; "
          "mlp.shared_experts.up_proj.weight [SH,H] optional; "
          "mlp.shared_experts.down_proj.weight [H,SH] optional"}}}});
  out.push_back({"gpt2*",
                 kHead,
                 "wte.weight",
                 "transformer.",
                 "",
                 {"V = vocab_size CF010; H = n_embd CF011; P = n_positions CF018; H3 = 3*n_embd CF015; "
                  "F = ninner CF016"},
                 {"ninner = n_inner else 4*n_embd"},
                 {"wte.weight [V,H]; wpe.weight [P,H]; ln_f.weight [H]; ln_f.bias [H]; "
                  "lm_head.weight [V,H] optional"},
                 {{"h.",
                   "n_layer",
                   {"ln_1.weight [H]; ln_1.bias [H]; attn.c_attn.weight [H,H3]; attn.c_attn.bias [H3]; "
                    "attn.c_proj.weight [H,H]; attn.c_proj.bias [H]; ln_2.weight [H]; ln_2.bias [H]; "
                    "mlp.c_fc.weight [H,F]; mlp.c_fc.bias [F]; mlp.c_proj.weight [F,H]; "
                    "mlp.c_proj.bias [H]"}}}});
  out.push_back({"gpt_neox",
                 "embed_out.weight",
                 "gpt_neox.embed_in.weight",
                 "",
                 "num_attention_heads",
                 {kVocabHidden, "H3 = 3*hidden_size CF015", kFeedForward},
                 {},
                 {"gpt_neox.embed_in.weight [V,H]; gpt_neox.final_layer_norm.weight [H]; "
                  "gpt_neox.final_layer_norm.bias [H]; embed_out.weight [V,H] optional"},
                 {{"gpt_neox.layers.",
                   kLayerCount,
                   {kFusedNorms,
                    "attention.query_key_value.weight [H3,H]; attention.query_key_value.bias [H3]; "
                    "attention.dense.weight [H,H]; attention.dense.bias [H]; "
                    "mlp.dense_h_to_4h.weight [F,H]; mlp.dense_h_to_4h.bias [F]; "
                    "mlp.dense_4h_to_h.weight [H,F]; mlp.dense_4h_to_h.bias [H]"}}}});
  out.push_back({"bloom*",
                 kHead,
                 "word_embeddings.weight",
                 "transformer.",
                 "",
                 {"V = vocab_size CF010; H = hs CF011; H3 = 3*hs CF015; H4 = 4*hs CF016"},
                 {"hs = n_embed else hidden_size"},
                 {"word_embeddings.weight [V,H]; word_embeddings_layernorm.weight [H]; "
                  "word_embeddings_layernorm.bias [H]; ln_f.weight [H]; ln_f.bias [H]; "
                  "lm_head.weight [V,H] optional"},
                 {{"h.",
                   "n_layer",
                   {kFusedNorms,
                    "self_attention.query_key_value.weight [H3,H]; self_attention.query_key_value.bias [H3]; "
                    "self_attention.dense.weight [H,H]; self_attention.dense.bias [H]; "
                    "mlp.dense_h_to_4h.weight [H4,H]; mlp.dense_h_to_4h.bias [H4]; "
                    "mlp.dense_4h_to_h.weight [H,H4]; mlp.dense_4h_to_h.bias [H]"}}}});
  out.push_back({"opt*",
                 kHead,
                 "model.decoder.embed_tokens.weight",
                 "",
                 "num_attention_heads",
                 {"V = vocab_size CF010; W = wproj CF011; P2 = max_position_embeddings+2 CF018; "
                  "H = hidden_size CF011; F = ffn_dim CF016"},
                 {"wproj = word_embed_proj_dim else hidden_size"},
                 {"model.decoder.embed_tokens.weight [V,W]; model.decoder.embed_positions.weight [P2,H]; "
                  "model.decoder.final_layer_norm.weight [H] optional; "
                  "model.decoder.final_layer_norm.bias [H] optional; "
                  "model.decoder.project_in.weight [H,W] optional; "
                  "model.decoder.project_out.weight [W,H] optional; lm_head.weight [V,W] optional"},
                 {{"model.decoder.layers.",
                   kLayerCount,
                   {"self_attn.q_proj.weight [H,H]; self_attn.q_proj.bias [H]; "
                    "self_attn.k_proj.weight [H,H]; self_attn.k_proj.bias [H]; "
                    "self_attn.v_proj.weight [H,H]; self_attn.v_proj.bias [H]; "
                    "self_attn.out_proj.weight [H,H]; self_attn.out_proj.bias [H]; "
                    "self_attn_layer_norm.weight [H]; self_attn_layer_norm.bias [H]; fc1.weight [F,H]; "
                    "fc1.bias [F]; fc2.weight [H,F]; fc2.bias [H]; final_layer_norm.weight [H]; "
                    "final_layer_norm.bias [H]"}}}});
  out.push_back({"bert*",
                 "",
                 "embeddings.word_embeddings.weight",
                 "bert.",
                 "num_attention_heads",
                 {kVocabHidden, "P = max_position_embeddings CF018; T = type_vocab_size CF018", kFeedForward},
                 {},
                 {"embeddings.word_embeddings.weight [V,H]; embeddings.position_embeddings.weight [P,H]; "
                  "embeddings.token_type_embeddings.weight [T,H]; embeddings.LayerNorm.weight [H]; "
                  "embeddings.LayerNorm.bias [H]; pooler.dense.weight [H,H] optional; "
                  "pooler.dense.bias [H] optional"},
                 {{"encoder.layer.",
                   kLayerCount,
                   {"attention.self.query.weight [H,H]; attention.self.query.bias [H]; "
                    "attention.self.key.weight [H,H]; attention.self.key.bias [H]; "
                    "attention.self.value.weight [H,H]; attention.self.value.bias [H]; "
                    "attention.output.dense.weight [H,H]; attention.output.dense.bias [H]; "
                    "attention.output.LayerNorm.weight [H]; attention.output.LayerNorm.bias [H]; "
                    "intermediate.dense.weight [F,H]; intermediate.dense.bias [F]; "
                    "output.dense.weight [H,F]; output.dense.bias [H]; output.LayerNorm.weight [H]; "
                    "output.LayerNorm.bias [H]"}}}});
  constexpr std::string_view kSelfAttention =
      "layer.0.SelfAttention.q.weight [A,H]; layer.0.SelfAttention.k.weight [A,H]; "
      "layer.0.SelfAttention.v.weight [A,H]; layer.0.SelfAttention.o.weight [H,A]; "
      "layer.0.SelfAttention.relative_attention_bias.weight [B,nhd] optional; layer.0.layer_norm.weight [H]";
  out.push_back({"t5*",
                 kHead,
                 "shared.weight",
                 "",
                 "",
                 {"V = vocab_size CF010; H = d_model CF011; A = num_heads*d_kv CF015; B = relbuckets CF018; "
                  "nhd = num_heads CF015; F = d_ff CF016"},
                 {"relbuckets = relative_attention_num_buckets else 32"},
                 {"shared.weight [V,H]; encoder.final_layer_norm.weight [H]; "
                  "decoder.final_layer_norm.weight [H] optional; lm_head.weight [V,H] optional; "
                  "encoder.embed_tokens.weight [V,H] optional; decoder.embed_tokens.weight [V,H] optional"},
                 {{"encoder.block.",
                   "num_layers",
                   {kSelfAttention,
                    "layer.1.DenseReluDense.wi.weight [F,H] (group A); "
                    "layer.1.DenseReluDense.wi_0.weight [F,H] (group B); "
                    "layer.1.DenseReluDense.wi_1.weight [F,H] (group B); "
                    "layer.1.DenseReluDense.wo.weight [H,F]; layer.1.layer_norm.weight [H]"}},
                  {"decoder.block.",
                   "num_decoder_layers else num_layers",
                   {kSelfAttention,
                    "layer.1.EncDecAttention.q.weight [A,H]; layer.1.EncDecAttention.k.weight [A,H]; "
                    "layer.1.EncDecAttention.v.weight [A,H]; layer.1.EncDecAttention.o.weight [H,A]; "
                    "layer.1.layer_norm.weight [H]; layer.2.DenseReluDense.wi.weight [F,H] (group A); "
                    "layer.2.DenseReluDense.wi_0.weight [F,H] (group B); "
                    "layer.2.DenseReluDense.wi_1.weight [F,H] (group B); "
                    "layer.2.DenseReluDense.wo.weight [H,F]; layer.2.layer_norm.weight [H]"}}}});
  out.push_back({"mamba*",
                 kHead,
                 "backbone.embeddings.weight",
                 "",
                 "",
                 {kVocabHidden,
                  "I2 = 2*inner CF016; I = inner CF016; C = conv_kernel CF016; X = dtr+2*state_size CF016; "
                  "R = dtr CF016; S = state_size CF016"},
                 {"inner = intermediate_size else expand*hidden_size; "
                  "dtr = time_step_rank else (hidden_size+15)//16"},
                 {"backbone.embeddings.weight [V,H]; backbone.norm_f.weight [H]; "
                  "lm_head.weight [V,H] optional"},
                 {{"backbone.layers.",
                   kLayerCount,
                   {"norm.weight [H]; mixer.in_proj.weight [I2,H]; mixer.conv1d.weight [I,1,C]; "
                    "mixer.conv1d.bias [I] optional; mixer.x_proj.weight [X,I]; mixer.dt_proj.weight [I,R]; "
                    "mixer.dt_proj.bias [I] optional; mixer.A_log [I,S]; mixer.D [I]; "
                    "mixer.out_proj.weight [H,I]"}}}});
  return out;
}

}  // namespace

const std::vector<FamilyText>& family_texts() {
  static const std::vector<FamilyText> texts = make_texts();
  return texts;
}

}  // namespace tftf
