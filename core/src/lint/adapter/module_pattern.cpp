#include "lint/adapter/module_pattern.h"

#include <algorithm>
#include <utility>

#include "lint/file_names.h"

namespace tftf {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// An unescaped dot of a key stands for one character, which is one byte here.
bool is_plain_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::string_view without_base_layer(std::string_view path) {
  constexpr std::string_view kNested = ".base_layer";
  while (ends_with(path, kNested)) path.remove_suffix(kNested.size());
  return path;
}

ModulePattern::ModulePattern(std::string key) : key_(std::move(key)) { plain_ = parse_plain(); }

bool ModulePattern::parse_plain() {
  std::string_view key = key_;
  at_start_ = starts_with(key, "^");
  if (at_start_) key.remove_prefix(1);
  if (ends_with(key, "$")) key.remove_suffix(1);
  for (size_t i = 0; i < key.size(); ++i) {
    const bool escaped = key[i] == '\\' && i + 1 < key.size() && key[i + 1] == '.';
    if (escaped) ++i;
    if (key[i] != '.' && !is_name_character(key[i])) return false;
    characters_ += key[i];
    any_.push_back(key[i] == '.' && !escaped);
  }
  return true;
}

std::optional<bool> ModulePattern::match_regex(std::string_view path) {
  if (!tried_) {
    tried_ = true;
    Result<Regex> regex = Regex::compile("(.*\\.)?(" + key_ + ")");
    if (regex) regex_ = std::move(regex).value();
  }
  if (!regex_) return std::nullopt;
  const Result<bool> matched = regex_->fullmatch(path);
  if (matched) return *matched;
  regex_.reset();  // it would give up on the other paths too, each time after a million steps
  return std::nullopt;
}

std::optional<bool> ModulePattern::matches(std::string_view path) {
  if (!plain_ || !is_plain_text(path)) return match_regex(path);
  const size_t length = characters_.size();
  if (length > path.size()) return false;
  const size_t start = path.size() - length;
  if (start > 0 && (at_start_ || path[start - 1] != '.')) return false;
  for (size_t i = length; i-- > 0;)
    if (!any_[i] && path[start + i] != characters_[i]) return false;
  return true;
}

void PathEnds::add(std::string_view name, size_t number) {
  lengths_.insert(name.size());
  numbers_[std::string(name)].push_back(number);
}

TargetModules::TargetModules(const JsonValue& config) {
  if (const JsonValue* parameters = config.get("target_parameters"); parameters && parameters->is_array())
    for (const JsonValue& element : parameters->elements)
      if (const size_t dot = element.text.rfind('.'); element.is_string() && dot != std::string::npos)
        parameter_modules_.add(std::string_view(element.text).substr(0, dot), 0);

  const JsonValue* targets = config.get("target_modules");
  if (!targets) return;
  if (targets->is_string()) {
    if (fold_case(targets->text) == "all-linear") return;
    Result<Regex> regex = Regex::compile(targets->text);
    if (!regex) return;
    regex_ = std::move(regex).value();
    entries_.push_back({targets->text, "/target_modules", targets->begin, false});
    undecided_ = false;
  } else if (targets->is_array()) {
    undecided_ = false;
    for (size_t i = 0; i < targets->elements.size(); ++i) {
      const JsonValue& element = targets->elements[i];
      if (!element.is_string()) continue;
      ends_.add(element.text, entries_.size());
      entries_.push_back({element.text, "/target_modules/" + std::to_string(i), element.begin, false});
    }
  }
}

bool TargetModules::match(std::string_view path) {
  bool matched = is_parameter_module(path);
  ends_.match(path, [&](size_t number) {
    entries_[number].matched = true;
    matched = true;
  });
  if (!regex_) return matched;
  const Result<bool> full = regex_->fullmatch(path);
  if (!full) {
    regex_.reset();  // as in ModulePattern
    undecided_ = true;
    return matched;
  }
  if (*full) entries_.front().matched = true;
  return matched || *full;
}

bool TargetModules::is_parameter_module(std::string_view path) const {
  bool found = false;
  parameter_modules_.match(without_base_layer(path), [&](size_t) { found = true; });
  return found;
}

}  // namespace tftf
