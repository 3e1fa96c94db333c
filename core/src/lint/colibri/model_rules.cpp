// A container against the model that it is to be: layers, experts, MTP, shards (spec colibri 5, 6.3).
#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/file_names.h"
#include "lint/colibri/rules.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf {
namespace {

using colibri::Format;

// Numbers past these are no model's; the reader has the same bounds (spec colibri 6.3).
constexpr int64_t kMaxLayers = 128;
constexpr int64_t kMaxExperts = 4096;

struct ModelShape {
  int64_t layers = 0;
  int64_t dense = 0;
  int64_t experts = 0;
  bool tied = false;
};

// Nothing unless config.json has every number of section 5's table: the container is of another family then.
std::optional<ModelShape> model_shape(const JsonValue* config) {
  if (!config) return std::nullopt;
  for (const char* key :
       {"hidden_size", "vocab_size", "num_attention_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
        "qk_rope_head_dim", "v_head_dim", "moe_intermediate_size", "intermediate_size"})
    if (config->integer(key).value_or(0) < 1) return std::nullopt;
  ModelShape shape;
  shape.layers = config->integer("num_hidden_layers").value_or(-1);
  shape.dense = config->integer("first_k_dense_replace").value_or(-1);
  shape.experts = config->integer("n_routed_experts").value_or(-1);
  shape.tied = config->get("tie_word_embeddings") && config->get("tie_word_embeddings")->is_true();
  if (shape.layers < 1 || shape.layers > kMaxLayers || shape.dense < 0 || shape.experts < 1 ||
      shape.experts > kMaxExperts)
    return std::nullopt;
  return shape;
}

std::string layer_name(int64_t layer) { return "model.layers." + std::to_string(layer); }

void add_implied(const ModelShape& shape, int64_t layer, std::vector<std::string>& names) {
  const std::string prefix = layer_name(layer) + ".";
  for (const char* name : {"input_layernorm", "post_attention_layernorm", "self_attn.q_a_layernorm",
                           "self_attn.kv_a_layernorm", "self_attn.q_a_proj", "self_attn.q_b_proj",
                           "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj", "self_attn.o_proj"})
    names.push_back(prefix + name + ".weight");
  const auto projections = [&](const std::string& mlp) {
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) names.push_back(mlp + part + ".weight");
  };
  if (layer < shape.dense) return projections(prefix + "mlp.");
  names.push_back(prefix + "mlp.gate.weight");
  names.push_back(prefix + "mlp.gate.e_score_correction_bias");
  projections(prefix + "mlp.shared_experts.");
  for (int64_t expert = 0; expert < shape.experts; ++expert)
    projections(prefix + "mlp.experts." + std::to_string(expert) + ".");
}

void check_complete(FileFindings& findings, const ColibriInput& input, const ModelShape& shape) {
  const auto check = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (input.container->find(name)) continue;
      if (Diagnostic* finding = findings.of(input.config_path).add(Rule::CO024)) {
        finding->subject = name;
        finding->values = {{"tensor", name}};
      }
    }
  };
  std::vector<std::string> names = {"model.embed_tokens.weight", "model.norm.weight"};
  if (!shape.tied) names.emplace_back("lm_head.weight");
  check(names);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    names.clear();
    add_implied(shape, layer, names);
    check(names);
  }
}

// By these names readers tell that the MTP layer is there.
std::vector<std::string> mtp_names(const ModelShape& shape) {
  std::vector<std::string> names;
  for (const char* name :
       {"eh_proj", "enorm", "hnorm", "shared_head.norm", "input_layernorm", "post_attention_layernorm",
        "self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
        "self_attn.o_proj", "mlp.gate", "mlp.shared_experts.gate_proj", "mlp.shared_experts.down_proj",
        "mlp.experts.0.gate_proj"})
    names.push_back(layer_name(shape.layers) + "." + name + ".weight");
  names.push_back(layer_name(shape.layers) + ".mlp.experts." + std::to_string(shape.experts - 1) +
                  ".down_proj.weight");
  return names;
}

// eh_proj is in no table: [H, 2H].
bool is_int4_row(const ColibriPair& pair, const JsonValue& config) {
  if (pair.resolution) return pair.resolution->format == Format::kInt4Row;
  const auto hidden = config.integer("hidden_size").value_or(0);
  if (!ends_with(pair.weight.info().name, ".eh_proj.weight") || hidden < 1 || hidden > (1 << 20))
    return false;
  colibri::Pair sizes = pair.sizes;
  sizes.rows = static_cast<uint64_t>(hidden);
  sizes.columns = 2 * sizes.rows;
  return colibri::resolve(sizes).format == Format::kInt4Row;
}

void check_mtp(FileFindings& findings, const ColibriInput& input, const ModelShape& shape) {
  const std::vector<std::string> names = mtp_names(shape);
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (!input.container->find(name)) missing.push_back(name);
  const std::string module = layer_name(shape.layers);
  std::string detail;
  if (!missing.empty() && missing.size() < names.size())
    detail = "lacks " + std::to_string(missing.size()) + " of the " + std::to_string(names.size()) +
             " tensors by which readers know it, first " + quote_name(missing.front());
  std::vector<std::string> int4;
  for (const ColibriPair& pair : input.container->pairs) {
    const std::string& name = pair.weight.info().name;
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    if (listed && !colibri::is_routed_expert(name) && is_int4_row(pair, *input.container->config()))
      int4.push_back(name);
  }
  if (!int4.empty())
    detail += (detail.empty() ? "" : "; ") + std::string("holds ") + std::to_string(int4.size()) +
              " dense weights in int4-row, first " + quote_name(*std::min_element(int4.begin(), int4.end())) +
              ": half of them round to zero and no draft is accepted; convert them to int8";
  if (detail.empty()) return;
  if (Diagnostic* finding = findings.of(input.place).add(Rule::CO023)) {
    finding->subject = module;
    finding->values = {{"module", module}, {"detail", std::move(detail)}};
  }
}

void check_experts(FileFindings& findings, const ColibriInput& input) {
  std::map<int64_t, std::pair<uint64_t, uint64_t>> layers;  // e8 and other tensors
  for (const ColibriPair& pair : input.container->pairs) {
    const std::string& name = pair.weight.info().name;
    const int64_t layer = colibri::layer_index(name);
    if (layer < 0 || !pair.sizes.routed || !pair.resolution || !pair.resolution->format) continue;
    auto& counts = layers[layer];
    ++(*pair.resolution->format == Format::kE8Lattice ? counts.first : counts.second);
  }
  for (const auto& [layer, counts] : layers) {
    if (counts.first == 0 || counts.second == 0) continue;
    if (Diagnostic* finding = findings.of(input.place).add(Rule::CO019)) {
      finding->subject = layer_name(layer);
      finding->values = {{"module", layer_name(layer)}, {"e8", counts.first}, {"others", counts.second}};
    }
  }
}

void check_shard_numbers(FileFindings& findings, const ColibriInput& input) {
  std::map<std::string, std::set<uint64_t>> families;
  for (const std::string& name : input.shard_names)
    if (const auto shard = parse_container_name(name))
      families[std::string(shard->prefix)].insert(shard->number);
  for (const auto& [prefix, numbers] : families) {
    std::vector<std::string> runs;
    uint64_t next = 0;
    for (const uint64_t number : numbers) {
      if (number > next)
        runs.push_back(std::to_string(next) + (number - 1 > next ? ".." + std::to_string(number - 1) : ""));
      next = number + 1;
    }
    if (runs.empty()) continue;
    if (Diagnostic* finding = findings.of(input.place).add(Rule::CO022)) {
      finding->subject = prefix;
      finding->values = {{"prefix", prefix}, {"missing", std::move(runs)}};
    }
  }
}

}  // namespace

void check_colibri_model(FileFindings& findings, const ColibriInput& input) {
  check_experts(findings, input);
  if (!input.is_folder) return;
  check_shard_numbers(findings, input);
  if (!input.complete) return;
  const std::optional<ModelShape> shape = model_shape(input.container->config());
  if (!shape) return;
  check_mtp(findings, input, *shape);
  check_complete(findings, input, *shape);
}

}  // namespace tftf
