#include "tftf/adapter/peft_key.h"

#include <vector>

namespace tftf {
namespace {

struct PartWord {
  std::string_view word;
  PeftPart part;
};

constexpr PartWord kWords[] = {{"lora_A", PeftPart::kLoraA},
                               {"lora_B", PeftPart::kLoraB},
                               {"lora_embedding_A", PeftPart::kEmbeddingA},
                               {"lora_embedding_B", PeftPart::kEmbeddingB},
                               {"lora_magnitude_vector", PeftPart::kMagnitude},
                               {"lora_E", PeftPart::kLoraE},
                               {"lora_diag", PeftPart::kLoraDiag},
                               {"hada_w1_a", PeftPart::kHadaW1A},
                               {"hada_w1_b", PeftPart::kHadaW1B},
                               {"hada_w2_a", PeftPart::kHadaW2A},
                               {"hada_w2_b", PeftPart::kHadaW2B},
                               {"hada_t1", PeftPart::kHadaT1},
                               {"hada_t2", PeftPart::kHadaT2},
                               {"lokr_w1", PeftPart::kLokrW1},
                               {"lokr_w1_a", PeftPart::kLokrW1A},
                               {"lokr_w1_b", PeftPart::kLokrW1B},
                               {"lokr_w2", PeftPart::kLokrW2},
                               {"lokr_w2_a", PeftPart::kLokrW2A},
                               {"lokr_w2_b", PeftPart::kLokrW2B},
                               {"lokr_t2", PeftPart::kLokrT2},
                               {"ia3_l", PeftPart::kIa3},
                               {"vera_lambda_b", PeftPart::kVeraLambdaB},
                               {"vera_lambda_d", PeftPart::kVeraLambdaD},
                               {"vera_A", PeftPart::kVeraA},
                               {"vera_B", PeftPart::kVeraB},
                               {"oft_R", PeftPart::kOftR},
                               {"oft_embedding_R", PeftPart::kOftEmbeddingR},
                               {"boft_R", PeftPart::kBoftR},
                               {"boft_s", PeftPart::kBoftS},
                               {"hra_u", PeftPart::kHraU},
                               {"miss_block", PeftPart::kMissBlock},
                               {"oft_r", PeftPart::kOldOft}};

constexpr std::string_view kPrefix = "base_model.model.";

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t dot = name.find('.', begin);
    parts.push_back(name.substr(begin, dot == std::string_view::npos ? dot : dot - begin));
    if (dot == std::string_view::npos) return parts;
    begin = dot + 1;
  }
}

std::string join(const std::vector<std::string_view>& parts, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i) out += '.';
    out += parts[i];
  }
  return out;
}

const PartWord* find_word(std::string_view component) {
  for (const PartWord& word : kWords)
    if (word.word == component) return &word;
  return nullptr;
}

// Number of components of the module path before `end`, `.base_layer`s at its end counted and dropped.
size_t drop_wrappers(const std::vector<std::string_view>& parts, size_t end, uint32_t& nesting) {
  while (end > 0 && parts[end - 1] == "base_layer") {
    --end;
    ++nesting;
  }
  return end;
}

}  // namespace

std::string_view peft_part_name(PeftPart part) {
  if (part == PeftPart::kTokenRows) return "trainable_tokens_delta";
  if (part == PeftPart::kLoraBBias) return "lora_B.bias";
  for (const PartWord& word : kWords)
    if (word.part == part) return word.word;
  return "";
}

PeftKey parse_peft_key(std::string_view name) {
  if (name.starts_with(kPrefix))
    name.remove_prefix(kPrefix.size());
  else if (name.starts_with("base_model.vera_"))
    name.remove_prefix(11);
  const auto parts = split(name);
  PeftKey key;
  // The last word decides: a module may be called like a part.
  for (size_t i = parts.size(); i-- > 0;) {
    const size_t rest = parts.size() - i - 1;
    if (const PartWord* word = find_word(parts[i]); word && rest <= 2) {
      const bool bias = word->part == PeftPart::kLoraB && rest >= 1 && parts.back() == "bias";
      if (rest == 2 && parts.back() != "weight" && !bias) continue;
      key.part = bias ? PeftPart::kLoraBBias : word->part;
      if (rest == 2 || (rest == 1 && parts.back() != "weight" && !bias)) key.adapter = parts[i + 1];
      key.module = join(parts, drop_wrappers(parts, i, key.nesting));
      return key;
    }
    if (parts[i] == "trainable_tokens_delta" && rest <= 1) {
      key.part = PeftPart::kTokenRows;
      if (rest == 1) key.adapter = parts[i + 1];
      const size_t end = i > 0 && parts[i - 1] == "token_adapter" ? i - 1 : i;
      key.module = join(parts, drop_wrappers(parts, end, key.nesting));
      return key;
    }
    // Whole layers: `.modules_to_save.<name>.weight`, where saving leaves the adapter's name out or not.
    if ((parts[i] == "modules_to_save" || parts[i] == "ln_tuning_layers") && (rest == 1 || rest == 2)) {
      if (rest == 2) key.adapter = parts[i + 1];
      key.module = join(parts, i);
      key.parameter = parts.back();
      return key;
    }
    if (parts[i] == "original_module" && rest == 1) {
      key.part = PeftPart::kOriginal;
      key.module = join(parts, i);
      key.parameter = parts.back();
      return key;
    }
  }
  key.parameter = parts.back();
  key.module = join(parts, drop_wrappers(parts, parts.size() - 1, key.nesting));
  return key;
}

}  // namespace tftf
