#include "tftf/quant/colibri/tensor_kind.h"

#include <charconv>

#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kLayers = "model.layers.";

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (std::string_view end : ends)
    if (name.ends_with(end)) return true;
  return false;
}

bool has_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts)
    if (has(name, part)) return true;
  return false;
}

std::optional<uint64_t> positive(const JsonValue& config, std::string_view key) {
  const auto value = config.integer(key);
  if (!value || *value < 1) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

using Dimension = std::optional<uint64_t>;

Dimension times(Dimension a, Dimension b) { return a && b ? checked_mul(*a, *b) : std::nullopt; }
Dimension plus(Dimension a, Dimension b) { return a && b ? checked_add(*a, *b) : std::nullopt; }

std::optional<std::pair<uint64_t, uint64_t>> shape(Dimension rows, Dimension columns) {
  if (!rows || !columns) return std::nullopt;
  return std::pair{*rows, *columns};
}

// "experts.<digits>." or "shared_experts." in front of the projection: removed from `name`.
bool drop_expert_prefix(std::string_view& name) {
  if (name.starts_with("shared_experts.")) {
    name.remove_prefix(15);
    return true;
  }
  if (!name.starts_with("experts.")) return false;
  const size_t dot = name.find('.', 8);
  if (dot == std::string_view::npos || dot == 8) return false;
  for (char c : name.substr(8, dot - 8))
    if (c < '0' || c > '9') return false;
  name.remove_prefix(dot + 1);
  return true;
}

}  // namespace

std::string_view kind_name(TensorKind kind) {
  constexpr std::string_view kNames[] = {"skip", "consumed", "f32",  "io",   "x", "sh",
                                         "o",    "kvb",      "attn", "dmlp", "q"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_stampable(TensorKind kind) {
  return kind == TensorKind::kShared || kind == TensorKind::kOutput || kind == TensorKind::kAttention ||
         kind == TensorKind::kDenseMlp || kind == TensorKind::kKvB;
}

int64_t layer_index(std::string_view name) {
  if (!name.starts_with(kLayers)) return -1;
  const std::string_view rest = name.substr(kLayers.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0) return -1;
  int64_t index = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + dot, index);
  if (error != std::errc() || stop != rest.data() + dot || rest[0] == '-') return -1;
  return index;
}

TensorKind classify(std::string_view name, const Pass& pass) {
  using enum TensorKind;
  const int64_t layer = layer_index(name);
  if (ends_with_any(name, {"_scale_inv", ".weight_scale", ".weight_scale_2", ".input_scale"}))
    return kConsumed;
  if (pass.indexer) {
    if (layer < 0 || layer >= pass.layers || !has(name, "indexer")) return kSkip;
    return name.ends_with("norm.weight") ? kF32 : kCatchAll;
  }
  if (pass.mtp) {
    if (layer != pass.layers || has(name, "indexer")) return kSkip;
  } else if (layer >= pass.layers ||
             has_any(name, {"indexer", "indexers_proj", "eh_proj", "enorm", "hnorm", "shared_head"})) {
    return kSkip;
  }
  if (ends_with_any(name, {"e_score_correction_bias", "mlp.gate.weight", "norm.weight"})) return kF32;
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return kIo;
  if (has(name, ".mlp.experts.") && name.ends_with(".weight")) return kRouted;
  if (has(name, "shared_experts")) return kShared;
  if (name.ends_with("o_proj.weight")) return kOutput;
  if (name.ends_with("kv_b_proj.weight")) return kKvB;
  if (ends_with_any(name, {"q_a_proj.weight", "q_b_proj.weight", "kv_a_proj_with_mqa.weight"}))
    return kAttention;
  if (ends_with_any(name, {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"}))
    return kDenseMlp;
  return name.ends_with(".weight") ? kCatchAll : kF32;
}

std::optional<std::pair<uint64_t, uint64_t>> implied_shape(std::string_view name, const JsonValue& config) {
  const auto dimension = [&](std::string_view key) { return positive(config, key); };
  const Dimension hidden = dimension("hidden_size");
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight")
    return shape(dimension("vocab_size"), hidden);
  const int64_t layer = layer_index(name);
  if (layer < 0 || !name.ends_with(".weight")) return std::nullopt;
  std::string_view part = name.substr(name.find('.', kLayers.size()) + 1);
  part.remove_suffix(7);
  const Dimension heads = dimension("num_attention_heads");
  if (part == "self_attn.q_a_proj") return shape(dimension("q_lora_rank"), hidden);
  if (part == "self_attn.q_b_proj")
    return shape(times(heads, plus(dimension("qk_nope_head_dim"), dimension("qk_rope_head_dim"))),
                 dimension("q_lora_rank"));
  if (part == "self_attn.kv_a_proj_with_mqa")
    return shape(plus(dimension("kv_lora_rank"), dimension("qk_rope_head_dim")), hidden);
  if (part == "self_attn.kv_b_proj")
    return shape(times(heads, plus(dimension("qk_nope_head_dim"), dimension("v_head_dim"))),
                 dimension("kv_lora_rank"));
  if (part == "self_attn.o_proj") return shape(hidden, times(heads, dimension("v_head_dim")));
  if (!part.starts_with("mlp.")) return std::nullopt;
  part.remove_prefix(4);
  const auto first_dense = config.integer("first_k_dense_replace");
  if (!first_dense) return std::nullopt;
  const bool dense = layer < *first_dense;
  if (!dense && !drop_expert_prefix(part)) return std::nullopt;
  const Dimension inner = dimension(dense ? "intermediate_size" : "moe_intermediate_size");
  if (part == "gate_proj" || part == "up_proj") return shape(inner, hidden);
  if (part == "down_proj") return shape(hidden, inner);
  return std::nullopt;
}

}  // namespace tftf::colibri
