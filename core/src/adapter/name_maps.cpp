// The tables of names that differ between the original code and diffusers.
#include "adapter/name_maps.h"

#include <array>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

struct FusedRow {
  std::string_view original;
  std::array<std::string_view, 4> parts;
  FusedRows rows = FusedRows::kSame;
};

constexpr FusedRow kFluxRows[] = {
    {"double_blocks.#.img_attn.qkv",
     {"transformer_blocks.#.attn.to_q", "transformer_blocks.#.attn.to_k", "transformer_blocks.#.attn.to_v"},
     FusedRows::kThirds},
    {"double_blocks.#.txt_attn.qkv",
     {"transformer_blocks.#.attn.add_q_proj", "transformer_blocks.#.attn.add_k_proj",
      "transformer_blocks.#.attn.add_v_proj"},
     FusedRows::kThirds},
    {"double_blocks.#.img_attn.proj", {"transformer_blocks.#.attn.to_out.0"}},
    {"double_blocks.#.txt_attn.proj", {"transformer_blocks.#.attn.to_add_out"}},
    {"double_blocks.#.img_mlp.0", {"transformer_blocks.#.ff.net.0.proj"}},
    {"double_blocks.#.img_mlp.2", {"transformer_blocks.#.ff.net.2"}},
    {"double_blocks.#.txt_mlp.0", {"transformer_blocks.#.ff_context.net.0.proj"}},
    {"double_blocks.#.txt_mlp.2", {"transformer_blocks.#.ff_context.net.2"}},
    {"double_blocks.#.img_mod.lin", {"transformer_blocks.#.norm1.linear"}},
    {"double_blocks.#.txt_mod.lin", {"transformer_blocks.#.norm1_context.linear"}},
    {"double_blocks.#.img_attn.norm.query_norm", {"transformer_blocks.#.attn.norm_q"}},
    {"double_blocks.#.img_attn.norm.key_norm", {"transformer_blocks.#.attn.norm_k"}},
    {"double_blocks.#.txt_attn.norm.query_norm", {"transformer_blocks.#.attn.norm_added_q"}},
    {"double_blocks.#.txt_attn.norm.key_norm", {"transformer_blocks.#.attn.norm_added_k"}},
    {"single_blocks.#.linear1",
     {"single_transformer_blocks.#.attn.to_q", "single_transformer_blocks.#.attn.to_k",
      "single_transformer_blocks.#.attn.to_v", "single_transformer_blocks.#.proj_mlp"},
     FusedRows::kLinear1},
    {"single_blocks.#.linear1_qkv",
     {"single_transformer_blocks.#.attn.to_q", "single_transformer_blocks.#.attn.to_k",
      "single_transformer_blocks.#.attn.to_v"},
     FusedRows::kQkv},
    {"single_blocks.#.linear2", {"single_transformer_blocks.#.proj_out"}},
    {"single_blocks.#.modulation.lin", {"single_transformer_blocks.#.norm.linear"}},
    {"single_blocks.#.norm.query_norm", {"single_transformer_blocks.#.attn.norm_q"}},
    {"single_blocks.#.norm.key_norm", {"single_transformer_blocks.#.attn.norm_k"}},
    {"img_in", {"x_embedder"}},
    {"txt_in", {"context_embedder"}},
    {"time_in.in_layer", {"time_text_embed.timestep_embedder.linear_1"}},
    {"time_in.out_layer", {"time_text_embed.timestep_embedder.linear_2"}},
    {"vector_in.in_layer", {"time_text_embed.text_embedder.linear_1"}},
    {"vector_in.out_layer", {"time_text_embed.text_embedder.linear_2"}},
    {"guidance_in.in_layer", {"time_text_embed.guidance_embedder.linear_1"}},
    {"guidance_in.out_layer", {"time_text_embed.guidance_embedder.linear_2"}},
    {"final_layer.linear", {"proj_out"}},
    {"final_layer.adaLN_modulation.1", {"norm_out.linear"}, FusedRows::kHalves},
};

constexpr FusedRow kZImageRows[] = {
    {"layers.#.attention.qkv",
     {"layers.#.attention.to_q", "layers.#.attention.to_k", "layers.#.attention.to_v"},
     FusedRows::kThirds},
    {"layers.#.attention.out", {"layers.#.attention.to_out.0"}},
    {"layers.#.attention.q_norm", {"layers.#.attention.norm_q"}},
    {"layers.#.attention.k_norm", {"layers.#.attention.norm_k"}},
    {"noise_refiner.#.attention.qkv",
     {"noise_refiner.#.attention.to_q", "noise_refiner.#.attention.to_k", "noise_refiner.#.attention.to_v"},
     FusedRows::kThirds},
    {"noise_refiner.#.attention.out", {"noise_refiner.#.attention.to_out.0"}},
    {"noise_refiner.#.attention.q_norm", {"noise_refiner.#.attention.norm_q"}},
    {"noise_refiner.#.attention.k_norm", {"noise_refiner.#.attention.norm_k"}},
    {"context_refiner.#.attention.qkv",
     {"context_refiner.#.attention.to_q", "context_refiner.#.attention.to_k",
      "context_refiner.#.attention.to_v"},
     FusedRows::kThirds},
    {"context_refiner.#.attention.out", {"context_refiner.#.attention.to_out.0"}},
    {"context_refiner.#.attention.q_norm", {"context_refiner.#.attention.norm_q"}},
    {"context_refiner.#.attention.k_norm", {"context_refiner.#.attention.norm_k"}},
};

std::span<const FusedRow> rows_of(NameSpace space) {
  switch (space) {
    case NameSpace::kFlux:
    case NameSpace::kFluxDiffusers:
      return kFluxRows;
    case NameSpace::kZImage:
    case NameSpace::kZImageDiffusers:
      return kZImageRows;
    default:
      return {};
  }
}

FusedName filled(const FusedRow& row, const PatternNumbers& numbers) {
  FusedName name{fill_name(row.original, numbers), {}, row.rows};
  for (const std::string_view part : row.parts)
    if (!part.empty()) name.parts.push_back(fill_name(part, numbers));
  return name;
}

// SD1, SD2 and SDXL: two layers a block and one that changes the size.
constexpr uint64_t kSlots = 3;

struct Tail {
  std::string_view sgm;
  std::string_view unet;
};
constexpr Tail kResnetTails[] = {{"in_layers.0", "norm1"},          {"in_layers.2", "conv1"},
                                 {"emb_layers.1", "time_emb_proj"}, {"out_layers.0", "norm2"},
                                 {"out_layers.3", "conv2"},         {"skip_connection", "conv_shortcut"}};
constexpr Tail kLoneNames[] = {{"input_blocks.0.0", "conv_in"},
                               {"out.0", "conv_norm_out"},
                               {"out.2", "conv_out"},
                               {"time_embed.0", "time_embedding.linear_1"},
                               {"time_embed.2", "time_embedding.linear_2"},
                               {"label_emb.0.0", "add_embedding.linear_1"},
                               {"label_emb.0.2", "add_embedding.linear_2"}};

// A path cut into its numbered head and the rest.
struct Cut {
  PatternNumbers numbers;
  std::string_view tail;
};
std::optional<Cut> cut_head(std::string_view path, std::string_view head) {
  size_t dots = 0;
  for (const char c : head) dots += c == '.';
  size_t end = 0;
  for (size_t seen = 0; end < path.size(); ++end)
    if (path[end] == '.' && seen++ == dots) break;
  if (end >= path.size()) return std::nullopt;
  auto numbers = match_name(head, path.substr(0, end), false);
  if (!numbers) return std::nullopt;
  return Cut{*std::move(numbers), path.substr(end + 1)};
}

std::string numbered(std::string_view pattern, std::initializer_list<uint64_t> numbers) {
  const PatternNumbers list(numbers);
  return fill_name(pattern, list);
}

// Tails of a resnet are renamed, those of an attention stay.
std::optional<std::string> unet_tail(std::string_view tail, bool resnet) {
  if (!resnet) return std::string(tail);
  for (const Tail& one : kResnetTails)
    if (one.sgm == tail) return std::string(one.unet);
  return std::nullopt;
}
std::optional<std::string> sgm_tail(std::string_view tail) {
  for (const Tail& one : kResnetTails)
    if (one.unet == tail) return std::string(one.sgm);
  return std::nullopt;
}

std::optional<std::string> joined(std::string head, const std::optional<std::string>& tail) {
  if (!tail) return std::nullopt;
  return head + "." + *tail;
}

}  // namespace

std::optional<FusedName> fused_by_original(NameSpace space, std::string_view path) {
  for (const FusedRow& row : rows_of(space))
    if (const auto numbers = match_name(row.original, path, false)) return filled(row, *numbers);
  return std::nullopt;
}

std::optional<FusedName> fused_by_part(NameSpace space, std::string_view path, size_t& part) {
  for (const FusedRow& row : rows_of(space)) {
    if (row.rows == FusedRows::kQkv) continue;
    for (part = 0; part < row.parts.size(); ++part) {
      if (row.parts[part].empty()) continue;
      if (const auto numbers = match_name(row.parts[part], path, false)) return filled(row, *numbers);
    }
  }
  return std::nullopt;
}

std::optional<std::string> unet_of_sgm(std::string_view path) {
  for (const Tail& one : kLoneNames)
    if (one.sgm == path) return std::string(one.unet);
  if (const auto cut = cut_head(path, "input_blocks.#.#")) {
    const uint64_t i = cut->numbers[0], j = cut->numbers[1];
    if (i == 0 || j > 1) return std::nullopt;
    const uint64_t block = (i - 1) / kSlots, layer = (i - 1) % kSlots;
    if (cut->tail == "op") return numbered("down_blocks.#.downsamplers.0.conv", {block});
    return joined(numbered(j == 0 ? "down_blocks.#.resnets.#" : "down_blocks.#.attentions.#", {block, layer}),
                  unet_tail(cut->tail, j == 0));
  }
  if (const auto cut = cut_head(path, "middle_block.#")) {
    const uint64_t j = cut->numbers[0];
    if (j > 2) return std::nullopt;
    return joined(j == 1 ? "mid_block.attentions.0" : numbered("mid_block.resnets.#", {j / 2}),
                  unet_tail(cut->tail, j != 1));
  }
  if (const auto cut = cut_head(path, "output_blocks.#.#")) {
    const uint64_t i = cut->numbers[0], j = cut->numbers[1];
    const uint64_t block = i / kSlots, layer = i % kSlots;
    if (cut->tail == "conv") return numbered("up_blocks.#.upsamplers.0.conv", {block});
    if (j > 1) return std::nullopt;
    return joined(numbered(j == 0 ? "up_blocks.#.resnets.#" : "up_blocks.#.attentions.#", {block, layer}),
                  unet_tail(cut->tail, j == 0));
  }
  return std::nullopt;
}

std::optional<std::string> sgm_of_unet(std::string_view path, std::optional<bool> sdxl) {
  for (const Tail& one : kLoneNames)
    if (one.unet == path) return std::string(one.sgm);
  if (const auto numbers = match_name("down_blocks.#.downsamplers.0.conv", path, false))
    return numbered("input_blocks.#.0.op", {kSlots * ((*numbers)[0] + 1)});
  if (const auto numbers = match_name("up_blocks.#.upsamplers.0.conv", path, false)) {
    // Behind the attention of its slot, where the block has one: the first block of SD1 and SD2 has none.
    const uint64_t block = (*numbers)[0];
    if (block == 0 && !sdxl) return std::nullopt;
    const uint64_t slot = block == 0 && !*sdxl ? 1 : 2;
    return numbered("output_blocks.#.#.conv", {block * kSlots + kSlots - 1, slot});
  }
  const struct {
    std::string_view unet, sgm;
    uint64_t first, inner;
    bool resnet;
  } kBlocks[] = {{"down_blocks.#.resnets.#", "input_blocks.#.#", 1, 0, true},
                 {"down_blocks.#.attentions.#", "input_blocks.#.#", 1, 1, false},
                 {"up_blocks.#.resnets.#", "output_blocks.#.#", 0, 0, true},
                 {"up_blocks.#.attentions.#", "output_blocks.#.#", 0, 1, false}};
  for (const auto& block : kBlocks) {
    const auto cut = cut_head(path, block.unet);
    if (!cut) continue;
    const uint64_t i = block.first + cut->numbers[0] * kSlots + cut->numbers[1];
    return joined(numbered(block.sgm, {i, block.inner}),
                  block.resnet ? sgm_tail(cut->tail) : std::optional(std::string(cut->tail)));
  }
  if (const auto cut = cut_head(path, "mid_block.resnets.#"))
    return joined(numbered("middle_block.#", {cut->numbers[0] * 2}), sgm_tail(cut->tail));
  if (const auto cut = cut_head(path, "mid_block.attentions.#"); cut && cut->numbers[0] == 0)
    return joined("middle_block.1", std::string(cut->tail));
  return std::nullopt;
}

}  // namespace tftf
