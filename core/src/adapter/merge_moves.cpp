// Names of the adapter's modules in the base: renamed on demand, moved to other prefixes, hinted at.
#include <algorithm>

#include "adapter/merge_names.h"
#include "adapter/merge_resolver.h"
#include "tftf/base/escape.h"

namespace tftf::merging {

Result<std::string> Resolver::renamed(std::string module) const {
  for (const auto& [pattern, replacement] : options_.renames) {
    Result<std::string> next = pattern.substitute(module, replacement);
    if (!next) return next;
    module = *std::move(next);
  }
  return module;
}

bool Resolver::lands(const std::string& module) const {
  for (const char* parameter : {"weight", "in_proj_weight"})
    if (by_name_.count(joined(module, parameter)) > 0) return true;
  if (by_name_.count(module) > 0 || is_tied_head(module)) return true;
  // A container: what it holds has a name below it.
  const std::string below = module + ".";
  const auto first = std::lower_bound(sorted_.begin(), sorted_.end(), std::string_view(below));
  return first != sorted_.end() && first->starts_with(below);
}

std::vector<std::string> Resolver::adapted_modules() const {
  std::vector<std::string> modules;
  for (const ModuleParts& parts : modules_) modules.push_back(parts.module);
  for (const Saved& saved : saved_) modules.push_back(saved.module);
  for (const Saved& token : tokens_) modules.push_back(token.module);
  std::sort(modules.begin(), modules.end());
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  return modules;
}

Result<void> Resolver::fit_names() {
  if (!options_.fit) return {};
  const auto on_base = [this](const std::string& module) { return lands(module); };
  const std::vector<NameMove> moves = find_moves(adapted_modules(), modules_of(sorted_), on_base);
  if (moves.empty()) return {};
  const auto move = [&](std::string& module) {
    if (!lands(module)) module = moved(module, moves);
  };
  for (ModuleParts& parts : modules_) move(parts.module);
  for (Saved& token : tokens_) {
    move(token.module);
    token.name = token.module;
  }
  for (Saved& saved : saved_) {
    const std::string parameter = saved.name.substr(saved.name.rfind('.') + 1);
    move(saved.module);
    saved.name = joined(saved.module, parameter);
  }
  result_.notices.push_back("The adapter's modules are taken under the base's names, as by " +
                            moves_as_options(moves) + ".");
  return {};
}

std::string Resolver::rename_hint(const std::vector<std::string>& modules) const {
  const std::vector<NameMove> moves =
      find_moves(modules, modules_of(sorted_), [this](const std::string& module) { return lands(module); });
  if (moves.empty()) return "";
  return " The base has " + quote_name(moved(modules.front(), moves)) + ": " + moves_as_options(moves) +
         " (or --fit) would join them.";
}

}  // namespace tftf::merging
