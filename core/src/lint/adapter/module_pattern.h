// How an adapter's configuration names modules: keys of rank_pattern and alpha_pattern, target_modules.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/base/json_value.h"
#include "tftf/base/regex.h"

namespace tftf {

// A key of rank_pattern or alpha_pattern: a regular expression, matched as (.*\.)?(KEY) against whole module
// paths without PEFT's prefix (spec safetensors 9).
class ModulePattern {
 public:
  explicit ModulePattern(std::string key);
  // Nothing when that cannot be told: the pattern is not one of base/regex.h, or gave up on a path.
  std::optional<bool> matches(std::string_view path);

 private:
  bool parse_plain();
  std::optional<bool> match_regex(std::string_view path);

  std::string key_;
  // Keys of names, dots and escaped dots need no engine; configurations may have hundreds of them.
  bool plain_ = false;
  bool at_start_ = false;   // a leading ^
  std::string characters_;  // of a plain key
  std::vector<bool> any_;   // which of them is an unescaped dot
  bool tried_ = false;
  std::optional<Regex> regex_;
};

// Names that match a path when they are the whole of it or follow a dot to its end.
class PathEnds {
 public:
  void add(std::string_view name, size_t number);
  // Calls `visit` with the number of every name that matches.
  template <class Visit>
  void match(std::string_view path, Visit visit) const {
    for (const size_t length : lengths_) {
      if (length > path.size()) break;
      const size_t start = path.size() - length;
      if (start > 0 && path[start - 1] != '.') continue;
      if (const auto found = numbers_.find(std::string(path.substr(start))); found != numbers_.end())
        for (size_t number : found->second) visit(number);
    }
  }

 private:
  std::set<size_t> lengths_;  // so that a path is looked at once for each, however many dots it has
  std::unordered_map<std::string, std::vector<size_t>> numbers_;
};

// The entries of target_modules, and the modules of target_parameters.
class TargetModules {
 public:
  struct Entry {
    std::string text;
    std::string pointer;
    uint64_t offset = 0;
    bool matched = false;
  };

  // `config`: the adapter's configuration.
  explicit TargetModules(const JsonValue& config);
  // No statement can be made: not given, "all-linear", or an expression that base/regex.h does not take.
  bool undecided() const { return undecided_; }
  // Whether an entry, or a module of target_parameters, matches; marks the entries that do.
  bool match(std::string_view path);
  // A module whose parameters are adapted (target_parameters): its rank counts experts.
  bool is_parameter_module(std::string_view path) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  bool undecided_ = true;
  std::optional<Regex> regex_;
  PathEnds ends_;
  PathEnds parameter_modules_;
};

// Without the `.base_layer` that nested adapters leave at the end.
std::string_view without_base_layer(std::string_view path);

}  // namespace tftf
