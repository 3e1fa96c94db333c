// Matches modules against the entries of a configuration.
#include "quant/ct/scheme.h"

#include <algorithm>

#include "tftf/base/affix.h"

namespace tftf::ct {
namespace {

constexpr std::string_view kExpression = "re:";

bool is_expression(std::string_view text) { return text.substr(0, kExpression.size()) == kExpression; }

}  // namespace

Patterns::Patterns(const std::vector<std::string>& entries) : entries_(entries) {
  for (const std::string& entry : entries) {
    if (!is_expression(entry)) continue;
    Result<Regex> expression = Regex::compile(std::string_view(entry).substr(kExpression.size()));
    if (expression)
      expressions_.push_back(*std::move(expression));
    else
      unread_.push_back(entry);
  }
}

bool Patterns::matches(std::string_view module) const {
  if (names(module)) return true;
  return std::any_of(expressions_.begin(), expressions_.end(), [&](const Regex& one) {
    const Result<bool> matched = one.match(module);
    return matched && *matched;
  });
}

bool Patterns::names(std::string_view text) const {
  return std::find(entries_.begin(), entries_.end(), text) != entries_.end();
}

Schemes::Schemes(Config config) : config_(std::move(config)), ignore_(config_.ignore) {
  std::map<std::string, const Group*> last;
  for (const Group& group : config_.groups)
    for (const std::string& target : group.targets) last[target] = &group;
  for (const bool expressions : {false, true})
    for (const auto& [text, group] : last)
      if (is_expression(text) == expressions)
        targets_.push_back({text, group, Patterns(std::vector<std::string>{text})});
}

std::vector<const Group*> Schemes::candidates(std::string_view module, std::string_view module_class) const {
  std::vector<const Group*> found;
  const auto add = [&](const Group* group) {
    if (std::find(found.begin(), found.end(), group) == found.end()) found.push_back(group);
  };
  for (const Target& target : targets_)
    if (target.pattern.matches(module)) add(target.group);
  for (const Target& target : targets_)
    if (target.text == module_class || target.text == "Module") add(target.group);
  return found;
}

const Group* Schemes::assign(std::string_view module, std::string_view module_class) const {
  if (module_class != "Linear" && module_class != "Embedding") return nullptr;
  if (ignore_.matches(module) || ignore_.names(module_class) || ignore_.names("Module")) return nullptr;
  const std::vector<const Group*> found = candidates(module, module_class);
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> Schemes::unread() const {
  std::vector<std::string> out = ignore_.unread();
  for (const Target& target : targets_)
    out.insert(out.end(), target.pattern.unread().begin(), target.pattern.unread().end());
  return out;
}

std::string_view guessed_class(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  if (ends_with(module, "norm")) return "Norm";
  for (const std::string_view word : {"embed", "wte", "wpe"})
    if (last.find(word) != std::string_view::npos) return "Embedding";
  return "Linear";
}

bool is_quantizable(std::string_view module, const Patterns& targets, const Patterns& ignore) {
  if (ends_with(module, "norm")) return false;
  if (!targets.empty() && !targets.names("Linear") && !targets.matches(module)) return false;
  return !ignore.matches(module);
}

}  // namespace tftf::ct
