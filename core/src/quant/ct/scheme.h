// Which group of a compressed-tensors configuration a module belongs to, by its name (spec compressed-tensors 1.5).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/ct/config.h"
#include "tftf/base/regex.h"

namespace tftf::ct {

// Entries of `targets` and `ignore`: names, "re:" and a regular expression that matches from the start, names of classes.
class Patterns {
 public:
  explicit Patterns(const std::vector<std::string>& entries);
  // By name alone: equality, or the expression.
  bool matches(std::string_view module) const;
  bool names(std::string_view text) const;  // one of the entries, letter by letter
  bool empty() const { return entries_.empty(); }
  // Entries that are no expressions, or not of the kind that is understood: they match nothing.
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  std::vector<std::string> entries_;
  std::vector<Regex> expressions_;
  std::vector<std::string> unread_;
};

class Schemes {
 public:
  explicit Schemes(Config config);

  const Config& config() const { return config_; }
  // The group of a module of that class ("Linear", "Embedding", …); null for none, or when it is ignored.
  const Group* assign(std::string_view module, std::string_view module_class) const;
  // Groups that may mean the module, best first, whether it is ignored or not: those that name it, then those of its class.
  std::vector<const Group*> candidates(std::string_view module, std::string_view module_class) const;
  bool ignores(std::string_view module) const { return ignore_.matches(module); }
  // Expressions that are not understood.
  std::vector<std::string> unread() const;

 private:
  struct Target {
    std::string text;
    const Group* group;
    Patterns pattern;
  };
  Config config_;
  std::vector<Target>
      targets_;  // names, expressions, each in order of their bytes; the last group of a text counts
  Patterns ignore_;
};

// What a module of that name is, as far as names tell: "Embedding", "Norm" or "Linear".
std::string_view guessed_class(std::string_view module);
// The converter's rule, which has names alone: every module but norms where `targets` is empty or holds "Linear", else those
// whose name matches; without the ignored ones.
bool is_quantizable(std::string_view module, const Patterns& targets, const Patterns& ignore);

}  // namespace tftf::ct
