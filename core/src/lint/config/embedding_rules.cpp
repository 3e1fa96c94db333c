// Embeddings and output head of models without a family table.
#include <algorithm>
#include <iterator>

#include "lint/config/model_facts.h"
#include "lint/config/tokenizer_ids.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kEmbedTokens = "embed_tokens.weight";
constexpr std::string_view kEmbeddingPrefixes[] = {"model.", "model.language_model.", "language_model.model.",
                                                   "model.text_model."};
constexpr std::string_view kLmHead = "lm_head.weight";
constexpr std::string_view kTieKey = "tie_word_embeddings";

bool is_embedding(std::string_view name) {
  if (!ends_with(name, kEmbedTokens)) return false;
  const std::string_view prefix = name.substr(0, name.size() - kEmbedTokens.size());
  return std::find(std::begin(kEmbeddingPrefixes), std::end(kEmbeddingPrefixes), prefix) !=
         std::end(kEmbeddingPrefixes);
}

// Whether a tensor may be an output head, in any of its known spellings.
bool is_head(std::string_view name) {
  std::string_view first, before, last;
  bool found = false;
  for_each_component(name, [&](std::string_view component) {
    if (component.data() == name.data()) first = component;
    found = found || component == "lm_head" || component == "output_layer";
    before = last;
    last = component;
  });
  return found || first == "head" || first == "output" || first == "embed_out" ||
         (last == "weight" && (before == "head" || before == "output"));
}

// Rows of values as they are: no codes.
bool is_plain_matrix(const ConfigTensor& tensor) {
  const bool plain = tensor.dtype == DType::F16 || tensor.dtype == DType::BF16 ||
                     tensor.dtype == DType::F32 || tensor.dtype == DType::F64;
  return plain && tensor.shape->size() == 2;
}

void check_rows(Diagnostics& out, const ModelFacts& facts, const ConfigTensor& embedding) {
  const std::optional<int64_t> rows = facts.config.integer("vocab_size");
  if (!rows || !is_floating(embedding.dtype) || embedding.shape->size() != 2 ||
      starts_with(facts.model_type, "mllama"))
    return;
  const uint64_t found = (*embedding.shape)[0];
  if (*rows >= 0 && static_cast<uint64_t>(*rows) == found) return;
  add_config_finding(out, facts, Rule::CF047, std::string(embedding.name),
                     {{"expected", *rows}, {"tensor", std::string(embedding.name)}, {"found", found}},
                     "vocab_size");
}

void check_output_head(Diagnostics& out, const ModelFacts& facts, size_t embedding,
                       std::optional<TiedTensors>* tied) {
  if (!facts.config.generates()) return;
  const auto tensors = facts.folder.tensors;
  if (facts.config.ties_everywhere(false)) {
    if (facts.is_mlx || facts.folder.has_sentence_files || !facts.complete()) return;
    if (std::any_of(tensors.begin(), tensors.end(),
                    [](const ConfigTensor& tensor) { return is_head(tensor.name); }))
      return;
    add_config_finding(out, facts, Rule::CF048, std::string(kLmHead), {}, kTieKey);
    return;
  }
  if (!facts.config.ties_everywhere(true)) return;
  size_t count = 0, head = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    if (name != kLmHead && !ends_with(name, ".lm_head.weight")) continue;
    head = i;
    ++count;
  }
  if (count != 1) return;
  const std::string name(tensors[head].name);
  add_config_finding(out, facts, Rule::CF021, name, {{"tensor", name}}, kTieKey);
  if (tied && *tensors[head].shape == *tensors[embedding].shape) *tied = TiedTensors{head, embedding};
}

void check_token_ids(Diagnostics& out, const ModelFacts& facts, const ConfigTensor& embedding) {
  if (!facts.folder.tokenizer_text || !is_plain_matrix(embedding)) return;
  const uint64_t rows = (*embedding.shape)[0];
  for (const auto& [token, id] : tokens_beyond(*facts.folder.tokenizer_text, rows))
    add_config_finding(out, facts, Rule::CF030, token, {{"id", id}, {"token", token}, {"rows", rows}});
}

}  // namespace

void check_embeddings(Diagnostics& out, const ModelFacts& facts, std::optional<TiedTensors>* tied) {
  if (facts.has_family) return;
  const auto tensors = facts.folder.tensors;
  size_t count = 0, embedding = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (is_embedding(tensors[i].name)) {
      embedding = i;
      ++count;
    }
  if (count != 1) return;
  check_rows(out, facts, tensors[embedding]);
  check_output_head(out, facts, embedding, tied);
  check_token_ids(out, facts, tensors[embedding]);
}

}  // namespace tftf
