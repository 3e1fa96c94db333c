#include "inspect/family_guess.h"

#include <array>

namespace tftf {
namespace {

// Every part must occur in some name, `without` in none. The first row that fits decides, so rows that ask
// for more come first.
struct Signature {
  std::string_view family;
  std::array<std::string_view, 3> parts;
  std::string_view without;
};
constexpr Signature kSignatures[] = {
    {"deepseek_v4", {".ffn.experts.", ".attn.wq_a.", ".scale"}, {}},
    {"deepseek_v3", {"kv_a_proj_with_mqa", "mlp.experts.", "e_score_correction_bias"}, {}},
    {"deepseek_v2", {"kv_a_proj_with_mqa", {}, {}}, {}},
    {"gpt_oss", {"mlp.experts.gate_up_proj", "mlp.router", "sinks"}, {}},
    {"mixtral", {"block_sparse_moe.experts.", "w1", {}}, {}},
    {"qwen3_moe", {"self_attn.q_norm.", "mlp.experts.", "mlp.gate."}, "shared_expert"},
    {"qwen2_moe", {"mlp.shared_expert_gate", "mlp.experts.", {}}, {}},
    {"gemma3_text", {"pre_feedforward_layernorm", "self_attn.q_norm.", {}}, "vision"},
    {"gemma2", {"pre_feedforward_layernorm", "model.layers.", {}}, "q_norm"},
    {"qwen3", {"model.layers.", "self_attn.q_norm.", "mlp.gate_proj."}, "experts"},
    {"qwen2", {"model.layers.", "self_attn.q_proj.bias", "mlp.gate_proj."}, "vision"},
    {"phi3", {"self_attn.qkv_proj.", "mlp.gate_up_proj.", {}}, {}},
    {"llama", {"model.layers.", "self_attn.q_proj.", "mlp.gate_proj."}, "experts"},
    {"gpt_neox", {"gpt_neox.layers.", {}, {}}, {}},
    {"bloom", {"word_embeddings_layernorm", "self_attention.query_key_value", {}}, {}},
    {"opt", {"model.decoder.layers.", "fc1", "embed_positions"}, {}},
    {"t5", {"SelfAttention.q.", "DenseReluDense", {}}, {}},
    {"mamba", {"mixer.A_log", "mixer.conv1d", {}}, {}},
    {"bert", {"encoder.layer.", "attention.self.query", "word_embeddings"}, {}},
    {"gpt2", {"attn.c_attn.", "wte.weight", {}}, {}},
    {"flux", {"double_blocks.", "single_blocks.", "img_attn"}, {}},
    {"sdxl", {"diffusion_model.input_blocks.", "conditioner.embedders.", {}}, {}},
    {"sd1", {"diffusion_model.input_blocks.", "cond_stage_model.transformer.", {}}, {}},
    {"sd2", {"diffusion_model.input_blocks.", "cond_stage_model.model.", {}}, {}},
    {"sd3", {"joint_blocks.", "context_block", {}}, {}},
};

}  // namespace

FamilyGuess guess_family(const Checkpoint& checkpoint) {
  constexpr size_t kCount = std::size(kSignatures);
  std::array<std::array<bool, 3>, kCount> seen{};
  std::array<bool, kCount> spoiled{};
  for (TensorRef tensor : checkpoint.order) {
    const std::string_view name = checkpoint.info(tensor).name;
    for (size_t i = 0; i < kCount; ++i) {
      for (size_t p = 0; p < 3; ++p)
        seen[i][p] = seen[i][p] || name.find(kSignatures[i].parts[p]) != std::string_view::npos;
      spoiled[i] = spoiled[i] || (!kSignatures[i].without.empty() &&
                                  name.find(kSignatures[i].without) != std::string_view::npos);
    }
  }
  for (size_t i = 0; i < kCount; ++i)
    if (!spoiled[i] && seen[i][0] && seen[i][1] && seen[i][2])
      return {kSignatures[i].family, kSignatures[i].parts[0]};
  return {};
}

}  // namespace tftf
