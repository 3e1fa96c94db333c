// Patterns and the tables of the models whose names are known (spec adapters 6.2, 6.4, 6.5).
#include "adapter/name_patterns.h"

#include <algorithm>

namespace tftf {
namespace {

constexpr size_t kMostNameDigits = 9;

bool is_name_digit(char c) { return c >= '0' && c <= '9'; }

// Every head with every tail behind a dot; an empty head is the tail alone.
struct NameGroup {
  NameSpace space;
  std::span<const std::string_view> heads;
  std::span<const std::string_view> tails;
};

constexpr std::string_view kAlone[] = {""};

constexpr std::string_view kUnetAttentions[] = {"down_blocks.#.attentions.#", "up_blocks.#.attentions.#",
                                                "mid_block.attentions.#"};
constexpr std::string_view kAttentionTails[] = {"norm",
                                                "proj_in",
                                                "proj_out",
                                                "transformer_blocks.#.norm1",
                                                "transformer_blocks.#.norm2",
                                                "transformer_blocks.#.norm3",
                                                "transformer_blocks.#.attn1.to_q",
                                                "transformer_blocks.#.attn1.to_k",
                                                "transformer_blocks.#.attn1.to_v",
                                                "transformer_blocks.#.attn1.to_out.0",
                                                "transformer_blocks.#.attn2.to_q",
                                                "transformer_blocks.#.attn2.to_k",
                                                "transformer_blocks.#.attn2.to_v",
                                                "transformer_blocks.#.attn2.to_out.0",
                                                "transformer_blocks.#.ff.net.0.proj",
                                                "transformer_blocks.#.ff.net.2"};
constexpr std::string_view kUnetResnets[] = {"down_blocks.#.resnets.#", "up_blocks.#.resnets.#",
                                             "mid_block.resnets.#"};
constexpr std::string_view kUnetResnetTails[] = {"conv1",         "conv2", "conv_shortcut",
                                                 "time_emb_proj", "norm1", "norm2"};
constexpr std::string_view kUnetOthers[] = {"down_blocks.#.downsamplers.#.conv",
                                            "up_blocks.#.upsamplers.#.conv",
                                            "conv_in",
                                            "conv_out",
                                            "conv_norm_out",
                                            "time_embedding.linear_1",
                                            "time_embedding.linear_2",
                                            "add_embedding.linear_1",
                                            "add_embedding.linear_2"};

constexpr std::string_view kSgmBlocks[] = {"input_blocks.#.#", "middle_block.#", "output_blocks.#.#"};
constexpr std::string_view kSgmResnetTails[] = {"in_layers.0",  "in_layers.2",  "emb_layers.1",
                                                "out_layers.0", "out_layers.3", "skip_connection"};
constexpr std::string_view kSgmOthers[] = {"input_blocks.#.0.op", "output_blocks.#.#.conv",
                                           "input_blocks.0.0",    "time_embed.#",
                                           "label_emb.#.#",       "out.#"};

constexpr std::string_view kClipLayers[] = {"text_model.encoder.layers.#"};
constexpr std::string_view kClipTails[] = {"self_attn.q_proj",   "self_attn.k_proj", "self_attn.v_proj",
                                           "self_attn.out_proj", "mlp.fc1",          "mlp.fc2",
                                           "layer_norm1",        "layer_norm2"};
constexpr std::string_view kClipOthers[] = {"text_model.embeddings.token_embedding",
                                            "text_model.embeddings.position_embedding",
                                            "text_model.final_layer_norm", "text_projection"};
constexpr std::string_view kT5Layers[] = {"encoder.block.#.layer.#"};
constexpr std::string_view kT5Tails[] = {"SelfAttention.q",     "SelfAttention.k",   "SelfAttention.v",
                                         "SelfAttention.o",     "DenseReluDense.wi", "DenseReluDense.wi_0",
                                         "DenseReluDense.wi_1", "DenseReluDense.wo", "layer_norm"};

constexpr std::string_view kFluxDouble[] = {"double_blocks.#"};
constexpr std::string_view kFluxDoubleTails[] = {"img_attn.qkv",
                                                 "img_attn.proj",
                                                 "txt_attn.qkv",
                                                 "txt_attn.proj",
                                                 "img_mlp.0",
                                                 "img_mlp.2",
                                                 "txt_mlp.0",
                                                 "txt_mlp.2",
                                                 "img_mod.lin",
                                                 "txt_mod.lin",
                                                 "img_attn.norm.query_norm",
                                                 "img_attn.norm.key_norm",
                                                 "txt_attn.norm.query_norm",
                                                 "txt_attn.norm.key_norm"};
constexpr std::string_view kFluxSingle[] = {"single_blocks.#"};
constexpr std::string_view kFluxSingleTails[] = {"linear1",        "linear1_qkv",     "linear2",
                                                 "modulation.lin", "norm.query_norm", "norm.key_norm"};
constexpr std::string_view kFluxOthers[] = {"img_in",
                                            "txt_in",
                                            "time_in.in_layer",
                                            "time_in.out_layer",
                                            "vector_in.in_layer",
                                            "vector_in.out_layer",
                                            "guidance_in.in_layer",
                                            "guidance_in.out_layer",
                                            "final_layer.linear",
                                            "final_layer.adaLN_modulation.1"};

constexpr std::string_view kPairBlocks[] = {"transformer_blocks.#"};
constexpr std::string_view kPairTails[] = {
    "attn.to_q",         "attn.to_k",         "attn.to_v",           "attn.to_out.0", "attn.add_q_proj",
    "attn.add_k_proj",   "attn.add_v_proj",   "attn.to_add_out",     "attn.norm_q",   "attn.norm_k",
    "attn.norm_added_q", "attn.norm_added_k", "ff.net.0.proj",       "ff.net.2",      "ff_context.net.0.proj",
    "ff_context.net.2",  "norm1.linear",      "norm1_context.linear"};
constexpr std::string_view kLoneBlocks[] = {"single_transformer_blocks.#"};
constexpr std::string_view kLoneTails[] = {"attn.to_q",   "attn.to_k", "attn.to_v", "attn.norm_q",
                                           "attn.norm_k", "proj_mlp",  "proj_out",  "norm.linear"};
constexpr std::string_view kFluxDiffusersOthers[] = {"x_embedder",
                                                     "context_embedder",
                                                     "time_text_embed.timestep_embedder.linear_1",
                                                     "time_text_embed.timestep_embedder.linear_2",
                                                     "time_text_embed.text_embedder.linear_1",
                                                     "time_text_embed.text_embedder.linear_2",
                                                     "time_text_embed.guidance_embedder.linear_1",
                                                     "time_text_embed.guidance_embedder.linear_2",
                                                     "norm_out.linear",
                                                     "proj_out"};

constexpr std::string_view kZLayers[] = {"layers.#", "noise_refiner.#", "context_refiner.#"};
constexpr std::string_view kZTails[] = {"attention.qkv", "attention.out", "attention.q_norm",
                                        "attention.k_norm"};
constexpr std::string_view kZDiffusersTails[] = {
    "attention.to_q",   "attention.to_k",  "attention.to_v",  "attention.to_out.0", "attention.norm_q",
    "attention.norm_k", "feed_forward.w1", "feed_forward.w2", "feed_forward.w3",    "adaLN_modulation.0"};

constexpr NameGroup kModelGroups[] = {
    {NameSpace::kUnet, kUnetAttentions, kAttentionTails},
    {NameSpace::kUnet, kUnetResnets, kUnetResnetTails},
    {NameSpace::kUnet, kAlone, kUnetOthers},
    {NameSpace::kSgm, kSgmBlocks, kAttentionTails},
    {NameSpace::kSgm, kSgmBlocks, kSgmResnetTails},
    {NameSpace::kSgm, kAlone, kSgmOthers},
    {NameSpace::kFlux, kFluxDouble, kFluxDoubleTails},
    {NameSpace::kFlux, kFluxSingle, kFluxSingleTails},
    {NameSpace::kFlux, kAlone, kFluxOthers},
    {NameSpace::kFluxDiffusers, kPairBlocks, kPairTails},
    {NameSpace::kFluxDiffusers, kLoneBlocks, kLoneTails},
    {NameSpace::kFluxDiffusers, kAlone, kFluxDiffusersOthers},
    {NameSpace::kZImage, kZLayers, kZTails},
    {NameSpace::kZImageDiffusers, kZLayers, kZDiffusersTails},
};
constexpr NameGroup kTextGroups[] = {
    {NameSpace::kClip, kClipLayers, kClipTails},
    {NameSpace::kClip, kAlone, kClipOthers},
    {NameSpace::kT5, kT5Layers, kT5Tails},
};

std::optional<KnownName> find_in(std::span<const NameGroup> groups, std::string_view name, bool flat) {
  std::string pattern;
  for (const NameGroup& group : groups)
    for (const std::string_view head : group.heads) {
      // The head's first word decides whether its tails are worth a try.
      const std::string_view word = head.substr(0, head.find('.'));
      if (!name.starts_with(word)) continue;
      for (const std::string_view tail : group.tails) {
        pattern.assign(head);
        if (!head.empty()) pattern += '.';
        pattern += tail;
        if (const auto numbers = match_name(pattern, name, flat))
          return KnownName{group.space, fill_name(pattern, *numbers)};
      }
    }
  return std::nullopt;
}

}  // namespace

std::optional<PatternNumbers> match_name(std::string_view pattern, std::string_view name, bool flat) {
  PatternNumbers numbers;
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '#') {
      const char wanted = flat && c == '.' ? '_' : c;
      if (at == name.size() || name[at] != wanted) return std::nullopt;
      ++at;
      continue;
    }
    const size_t first = at;
    uint64_t number = 0;
    for (; at < name.size() && is_name_digit(name[at]); ++at) {
      if (at - first >= kMostNameDigits) return std::nullopt;
      number = number * 10 + static_cast<uint64_t>(name[at] - '0');
    }
    // "01" is no number: it would come back as another name.
    if (at == first || (at - first > 1 && name[first] == '0')) return std::nullopt;
    numbers.push_back(number);
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string fill_name(std::string_view pattern, std::span<const uint64_t> numbers) {
  std::string name;
  size_t next = 0;
  for (const char c : pattern) {
    if (c != '#')
      name += c;
    else if (next < numbers.size())
      name += std::to_string(numbers[next++]);
  }
  return name;
}

std::string flat_name(std::string_view path) {
  std::string name(path);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::optional<KnownName> find_name(std::string_view name, bool flat, bool text) {
  return text ? find_in(kTextGroups, name, flat) : find_in(kModelGroups, name, flat);
}

}  // namespace tftf
