#include "tftf/adapter/targeting.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

// A suffix entry names the module itself or one that ends in "." + entry.
bool is_suffix(std::string_view module, std::string_view entry) {
  if (module == entry) return true;
  return module.size() > entry.size() && module.ends_with(entry) &&
         module[module.size() - entry.size() - 1] == '.';
}

bool in_list(std::string_view module, const std::vector<std::string>& list) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return is_suffix(module, entry); });
}

Result<Regex> compile_pattern(const PeftConfig& config, std::string_view key, const std::string& pattern) {
  auto regex = Regex::compile(pattern);
  if (regex) return regex;
  Error error = regex.error();
  error.code = ErrorCode::kRefusedConfig;
  error.file = config.file;
  error.message = escape_text(config.file) + ": " + std::string(key) + ": " + error.message;
  return error;
}

Error refused_match(const PeftConfig& config, std::string_view module, Error error) {
  error.code = ErrorCode::kRefusedConfig;
  error.file = config.file;
  error.message = escape_text(config.file) + ": while matching " + quote_name(module) + ": " + error.message;
  return error;
}

}  // namespace

Result<Targeting> Targeting::compile(const PeftConfig& config) {
  Targeting out(config);
  const auto add = [&](std::string_view key, const std::string& pattern,
                       std::optional<Regex>& to) -> Result<void> {
    auto regex = compile_pattern(config, key, pattern);
    if (!regex) return regex.error();
    to.emplace(*std::move(regex));
    return {};
  };
  const auto is_pattern = [](const ModuleSelector& s) {
    return s.kind == ModuleSelector::Kind::kPattern && !s.all_linear();
  };
  if (is_pattern(config.target_modules))
    TFTF_TRY(add("target_modules", config.target_modules.pattern, out.target_));
  if (is_pattern(config.exclude_modules))
    TFTF_TRY(add("exclude_modules", config.exclude_modules.pattern, out.exclude_));
  if (config.feedforward_pattern)
    TFTF_TRY(add("feedforward_modules", *config.feedforward_pattern, out.feedforward_));
  const auto add_keys = [&](std::string_view key, const auto& entries,
                            std::vector<Pattern>& to) -> Result<void> {
    for (const auto& entry : entries) {
      auto regex = compile_pattern(config, key, "^(.*\\.)?(" + entry.first + ")$");
      if (!regex) return regex.error();
      to.push_back({entry.first, *std::move(regex)});
    }
    return {};
  };
  TFTF_TRY(add_keys("rank_pattern", config.rank_pattern, out.ranks_));
  TFTF_TRY(add_keys("alpha_pattern", config.alpha_pattern, out.alphas_));
  if (config.layers_to_transform) {
    std::vector<std::string> patterns;
    for (const std::string& name : config.layers_pattern)
      patterns.push_back("^.*?\\." + name + "\\.(\\d+)\\.");
    if (patterns.empty()) patterns.push_back("^.*?\\.[^.]*\\.(\\d+)\\.");
    for (const std::string& pattern : patterns) {
      auto regex = compile_pattern(config, "layers_pattern", pattern);
      if (!regex) return regex.error();
      out.layers_.push_back(*std::move(regex));
    }
  }
  return out;
}

Result<bool> Targeting::selected(const ModuleSelector& selector, const std::optional<Regex>& pattern,
                                 std::string_view module) const {
  if (selector.kind == ModuleSelector::Kind::kList) return in_list(module, selector.list);
  if (!pattern) return false;
  auto matched = pattern->fullmatch(module);
  if (!matched) return refused_match(*config_, module, matched.error());
  return *matched;
}

Result<bool> Targeting::layer_selected(std::string_view module) const {
  // The pattern wants a component after the number, as PEFT matches it against the path of the wrapped
  // module.
  for (const Regex& layer : layers_) {
    auto found = layer.search(module);
    if (!found) return refused_match(*config_, module, found.error());
    if (!*found) continue;
    const auto& group = (*found)->groups[1];
    if (!group) continue;
    int64_t index = 0;
    const auto [stop, error] =
        std::from_chars(module.data() + group->first, module.data() + group->second, index);
    if (error != std::errc() || stop != module.data() + group->second) return false;
    const auto& wanted = *config_->layers_to_transform;
    return std::find(wanted.begin(), wanted.end(), index) != wanted.end();
  }
  return false;
}

Result<TargetVerdict> Targeting::verdict(std::string_view module) const {
  auto excluded = selected(config_->exclude_modules, exclude_, module);
  if (!excluded) return excluded.error();
  if (*excluded) return TargetVerdict::kExcluded;
  if (saved_whole(module)) return TargetVerdict::kSavedWhole;
  const ModuleSelector& target = config_->target_modules;
  if (target.empty()) {
    // Nothing is named: everything with a pair, unless the adapter is about parameters only.
    return config_->target_parameters.empty() ? TargetVerdict::kTargeted : TargetVerdict::kNotTargeted;
  }
  if (target.all_linear()) return TargetVerdict::kTargeted;
  auto named = selected(target, target_, module);
  if (!named) return named.error();
  if (!*named) return TargetVerdict::kNotTargeted;
  // A module that is named in full is adapted in whatever layer it lies; an empty list of layers selects none out.
  const bool in_full = target.kind == ModuleSelector::Kind::kList &&
                       std::find(target.list.begin(), target.list.end(), module) != target.list.end();
  const bool by_layer = config_->layers_to_transform && !config_->layers_to_transform->empty();
  if (by_layer && !in_full && target.kind == ModuleSelector::Kind::kList) {
    auto layer = layer_selected(module);
    if (!layer) return layer.error();
    if (!*layer) return TargetVerdict::kOtherLayer;
  }
  return TargetVerdict::kTargeted;
}

Result<bool> Targeting::feedforward(std::string_view module) const {
  if (feedforward_) {
    auto matched = feedforward_->fullmatch(module);
    if (!matched) return refused_match(*config_, module, matched.error());
    return *matched;
  }
  return in_list(module, config_->feedforward_modules);
}

Result<std::optional<size_t>> Targeting::first_match(const std::vector<Pattern>& patterns,
                                                     std::string_view module) const {
  for (size_t i = 0; i < patterns.size(); ++i) {
    auto matched = patterns[i].regex.match(module);
    if (!matched) return refused_match(*config_, module, matched.error());
    if (*matched) return std::optional(i);
  }
  return std::optional<size_t>();
}

Result<std::optional<int64_t>> Targeting::rank(std::string_view module) const {
  auto match = first_match(ranks_, module);
  if (!match) return match.error();
  if (*match) return std::optional(config_->rank_pattern[**match].second);
  return config_->rank;
}

Result<std::optional<double>> Targeting::alpha(std::string_view module) const {
  auto match = first_match(alphas_, module);
  if (!match) return match.error();
  if (*match) return std::optional(config_->alpha_pattern[**match].second);
  if (!config_->present) return std::optional<double>();
  return std::optional(config_->alpha);
}

Result<double> Targeting::scale(std::string_view module, uint64_t r) const {
  auto configured = alpha(module);
  if (!configured) return configured.error();
  if (!*configured) return 1.0;
  const double divisor = config_->use_rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r);
  return **configured / divisor;
}

bool covers_module(std::string_view entry, std::string_view module) {
  // A parent that ends in the entry covers everything below it.
  for (size_t end = module.size();;) {
    if (module.substr(0, end).ends_with(entry)) return true;
    const size_t dot = module.rfind('.', end - 1);
    if (end == 0 || dot == std::string_view::npos) return false;
    end = dot;
  }
}

bool Targeting::saved_whole(std::string_view module) const {
  return std::any_of(config_->modules_to_save.begin(), config_->modules_to_save.end(),
                     [&](const std::string& entry) { return covers_module(entry, module); });
}

}  // namespace tftf
