// The modules that a quantisation configuration excludes, and the ways in which readers match them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/base/glob.h"
#include "tftf/base/json_value.h"
#include "tftf/base/regex.h"
#include "tftf/quant/config.h"

namespace tftf {

struct Exclusion {
  std::string text;                  // as written
  const JsonValue* value = nullptr;  // where
};

// How a reader takes the entries for its own list.
enum class ExclusionDialect : uint8_t {
  kTransformersFp8,  // expressions at the beginning, or the end of the path
  kEqualOrGlob
};

// Matching is bounded in all: lists and names are the file's, and their product may be any number. What was not decided
// counts as excluded where absence would be reported, and as not excluded where presence would.
class Exclusions {
 public:
  // Lists of the section and of hf_quant_config.json.
  explicit Exclusions(const QuantConfig& quant);

  const std::vector<Exclusion>& entries() const { return entries_; }
  // The first entry that excludes the module in that dialect.
  const Exclusion* find(std::string_view module, ExclusionDialect dialect);
  // Whether any entry, or a key of the rules for single modules, may mean the module: a part of its path, a glob or an
  // expression found anywhere in it.
  bool may_cover(std::string_view module);

 private:
  // Letters, digits, `_`, `-`, and `.`, which as an expression takes any character.
  struct Plain {
    std::string text;
    uint32_t entry = 0;
  };
  struct Expression {
    std::string text;
    std::optional<Regex> regex;
    std::optional<Glob> glob;  // `*TEXT*` in covers_, TEXT in patterns_
    std::string head;          // of TEXT, before its first wildcard
    uint32_t entry = 0;
  };
  void add_list(const JsonValue* list);
  void add_cover(std::string_view text);
  bool spend(uint64_t steps);
  std::optional<uint32_t> find_fp8(std::string_view module);
  std::optional<uint32_t> find_glob(std::string_view module);

  std::vector<Exclusion> entries_;
  std::unordered_map<std::string_view, uint32_t> by_text_;  // first of equal ones
  std::map<size_t, std::vector<Plain>> plain_;              // by length
  std::vector<Expression> patterns_;                        // entries that are no plain text
  std::vector<std::string> plain_covers_;
  std::vector<Expression> covers_;
  uint64_t budget_ = 300'000'000;
};

}  // namespace tftf
