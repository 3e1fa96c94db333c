// The tensors that a model family stores, as data (spec lint-rules 7).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/diagnostic/diagnostic.h"

namespace tftf {

// A family in the specification's own notation; lists are cut at ';'. Parts that families share are named
// once (families.cpp).
struct FamilyText {
  struct Layers {
    std::string_view prefix;  // "model.layers."
    std::string_view count;   // "num_hidden_layers", or "num_decoder_layers else num_layers"
    std::vector<std::string_view> entries;
    std::string_view
        renamed{};  // "mlp. block_sparse_moe.": what transformers 5 begins names with, and the table
  };
  std::string_view types;  // model types, "*" behind those whose embeddings are tied by default
  std::string_view head;   // empty when the family has none
  std::string_view embedding;
  std::string_view optional_prefix;
  std::string_view heads_key;             // the key that CF005 divides hidden_size by, empty when it does not
  std::vector<std::string_view> symbols;  // "Q = nh*hd CF015"
  std::vector<std::string_view> derived;  // "hd = head_dim else hidden_size//num_attention_heads"
  std::vector<std::string_view> top;      // "lm_head.weight [V,H] optional"
  std::vector<Layers> stacks;             // entries may end in "(group A)", "per expert" or "optional"
};
const std::vector<FamilyText>& family_texts();

// A dimension of configuration values, and the rule that a wrong one breaks.
struct FamilySymbol {
  std::string_view name;
  std::string_view expression;
  Rule rule{};
};

// A name for a configuration key with a fall-back expression (empty: there is none).
struct FamilyDerived {
  std::string_view name;
  std::string_view key;
  std::string_view otherwise;
};

struct FamilyDimension {
  static constexpr uint32_t kLiteral = UINT32_MAX;
  uint32_t symbol = kLiteral;
  uint64_t literal = 0;
};

struct FamilyEntry {
  std::string_view name;  // whole for top tensors, behind `prefix{i}.` or `experts{e}.` for the others
  std::vector<FamilyDimension> shape;
  bool optional = false;
  char group = 0;  // 'A', 'B' or 0
};

// Names of one level, findable by name and, for X.weight, by X. At most 64 of them.
struct FamilyNames {
  std::vector<FamilyEntry> entries;
  std::unordered_map<std::string_view, uint32_t> by_name;
  std::unordered_map<std::string_view, uint32_t> by_module;
};

struct FamilyStack {
  std::string_view prefix;
  std::string_view count_key;
  std::string_view count_otherwise;  // empty: there is none
  FamilyNames names;
  std::string_view expert_prefix;  // "mlp.experts.", empty without experts
  FamilyNames experts;
  bool has_groups = false;
  // Names that transformers 5 begins with `later` are those that begin with `released` here. Empty: there are none.
  std::string_view later, released;
};

struct Family {
  std::vector<std::string_view> types;
  std::vector<bool> tied;  // parallel to types: the default of tie_word_embeddings
  std::string_view head;
  std::string_view embedding;
  std::string_view optional_prefix;
  std::string_view heads_key;
  std::vector<FamilySymbol> symbols;
  std::vector<FamilyDerived> derived;
  FamilyNames top;
  std::vector<FamilyStack> stacks;
};

// Parsed at first use.
const std::vector<Family>& families();
// The family of a model type and whether that type ties its embeddings by default; null when unknown.
struct FamilyChoice {
  const Family* family = nullptr;
  bool tied = false;
};
FamilyChoice find_family(std::string_view model_type);

}  // namespace tftf
