// Which modules a PEFT configuration adapts, and with which rank and scale (spec tftf 4).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/peft_config.h"
#include "tftf/base/regex.h"

namespace tftf {

// Why a module is or is not adapted.
enum class TargetVerdict : uint8_t {
  kTargeted,
  kNotTargeted,  // target_modules names others
  kExcluded,     // exclude_modules
  kSavedWhole,   // under modules_to_save
  kOtherLayer,   // layers_to_transform
};

// True when an entry of modules_to_save names the module or a parent of it: it ends the path as plain text.
bool covers_module(std::string_view entry, std::string_view module);

// Compiled once per adapter; not for several threads at once.
class Targeting {
 public:
  // Errors (kRefusedConfig): a pattern outside the supported subset, naming key and pattern.
  static Result<Targeting> compile(const PeftConfig& config);

  // `module`: a path without prefix and `.weight`. Errors: a pattern that backtracks without end.
  Result<TargetVerdict> verdict(std::string_view module) const;
  // True for IA3 feed-forward modules.
  Result<bool> feedforward(std::string_view module) const;
  // Configured rank of a module: rank_pattern's first match in file order, else r; nothing when neither is
  // there.
  Result<std::optional<int64_t>> rank(std::string_view module) const;
  // Configured alpha: alpha_pattern's first match, else lora_alpha (alpha); nothing when the configuration
  // has none.
  Result<std::optional<double>> alpha(std::string_view module) const;
  // alpha / r, or alpha / sqrt(r) with use_rslora, in binary64; 1 when there is no configuration. `r`: the
  // tensors' rank.
  Result<double> scale(std::string_view module, uint64_t r) const;
  // True when an entry of modules_to_save covers the module.
  bool saved_whole(std::string_view module) const;

 private:
  struct Pattern {
    std::string key;
    Regex regex;
  };
  explicit Targeting(const PeftConfig& config) : config_(&config) {}
  Result<bool> selected(const ModuleSelector& selector, const std::optional<Regex>& pattern,
                        std::string_view module) const;
  Result<std::optional<size_t>> first_match(const std::vector<Pattern>& patterns,
                                            std::string_view module) const;
  Result<bool> layer_selected(std::string_view module) const;

  const PeftConfig* config_;
  std::optional<Regex> target_;
  std::optional<Regex> exclude_;
  std::optional<Regex> feedforward_;
  std::vector<Pattern> ranks_;
  std::vector<Pattern> alphas_;
  std::vector<Regex> layers_;
};

}  // namespace tftf
