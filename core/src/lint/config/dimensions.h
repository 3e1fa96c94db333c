// A family's dimensions computed from config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/config/family_table.h"
#include "tftf/base/json_value.h"

namespace tftf {

struct DimensionValue {
  std::vector<std::string_view> bad_keys;  // keys that are absent without a default, or no positive integer
  std::optional<uint64_t> value;           // nothing when a key is bad, or the value passes 2^64-1
  bool usable() const { return bad_keys.empty(); }
};

class Dimensions {
 public:
  Dimensions(const Family& family, const JsonValue& config) : family_(family), config_(config) {}

  // An expression of keys, derived names, numbers, + * // and brackets.
  DimensionValue evaluate(std::string_view expression) const;
  // `key`, when absent `otherwise` (an expression; empty: there is none).
  DimensionValue key_or(std::string_view key, std::string_view otherwise) const;
  // The expression with derived names written out as their keys.
  std::string spelled(std::string_view expression) const;
  // False when null or missing; also for the value "auto" of time_step_rank.
  bool present(std::string_view key) const;

 private:
  const FamilyDerived* find_derived(std::string_view name) const;
  // A member of the configuration that is not null, whatever of its names it has; or nothing.
  const JsonValue* member(std::string_view key) const;

  const Family& family_;
  const JsonValue& config_;
};

}  // namespace tftf
