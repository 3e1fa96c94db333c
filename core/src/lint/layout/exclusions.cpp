#include "lint/layout/exclusions.h"

#include <algorithm>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kLists[] = {"modules_to_not_convert", "ignored_layers", "ignore",
                                       "exclude_modules",        "exclude",        "llm_int8_skip_modules"};
constexpr std::string_view kRules[] = {"dynamic", "extra_config", "layer_quant_config"};
constexpr uint64_t kExpressionCost = 300;  // of a match, beside the text's length

bool is_plain_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
  });
}

// `pattern` against the beginning of `text`: a dot takes any character.
bool dotted_prefix(std::string_view pattern, std::string_view text) {
  if (pattern.size() > text.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] != text[i] && pattern[i] != '.') return false;
  return true;
}

bool occurs_dotted(std::string_view pattern, std::string_view text) {
  for (size_t at = 0; at + pattern.size() <= text.size(); ++at)
    if (dotted_prefix(pattern, text.substr(at))) return true;
  return false;
}

std::optional<Regex> compiled(std::string_view text) {
  Result<Regex> regex = Regex::compile(text);
  if (!regex) return std::nullopt;
  return std::move(*regex);
}

}  // namespace

Exclusions::Exclusions(const QuantConfig& quant) {
  for (const JsonValue* section : {quant.section, quant.hf_quant})
    for (const std::string_view key : kLists) add_list(section ? section->get(key) : nullptr);
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const std::string& text = entries_[i].text;
    by_text_.emplace(text, i);
    if (is_plain_text(text)) {
      plain_[text.size()].push_back({text, i});
    } else {
      Expression pattern{text, compiled(text), Glob(text), text.substr(0, text.find_first_of("*?[")), i};
      patterns_.push_back(std::move(pattern));
    }
    add_cover(text);
  }
  for (const std::string_view key : kRules) {
    const JsonValue* rules = quant.get(key);
    if (!rules || !rules->is_object()) continue;
    for (const JsonValue::Member& rule : rules->members) add_cover(rule.first);
  }
}

void Exclusions::add_list(const JsonValue* list) {
  if (!list || !list->is_array()) return;
  for (const JsonValue& element : list->elements)
    if (element.is_string() && !element.text.empty()) entries_.push_back({element.text, &element});
}

void Exclusions::add_cover(std::string_view text) {
  for (const std::string_view mark : {"re:", "-:", "+:"})
    if (starts_with(text, mark)) {
      text.remove_prefix(mark.size());
      break;
    }
  if (text.empty()) return;
  if (is_plain_text(text)) {
    plain_covers_.emplace_back(text);
    return;
  }
  Expression cover{std::string(text), compiled(text), Glob("*" + std::string(text) + "*"), {}, 0};
  covers_.push_back(std::move(cover));
}

bool Exclusions::spend(uint64_t steps) {
  budget_ -= std::min(budget_, steps);
  return budget_ != 0;
}

std::optional<uint32_t> Exclusions::find_fp8(std::string_view module) {
  std::optional<uint32_t> first;
  const auto take = [&](uint32_t entry) { first = std::min(first.value_or(entry), entry); };
  if (contains(module, ".experts.")) {
    for (size_t dot = 0; dot != std::string_view::npos;) {
      dot = module.find('.', dot + 1);
      if (!spend(dot == std::string_view::npos ? module.size() : dot)) return std::nullopt;
      if (const auto found = by_text_.find(module.substr(0, dot)); found != by_text_.end())
        take(found->second);
    }
    if (const auto same = plain_.find(module.size()); same != plain_.end())
      for (const Plain& plain : same->second) {
        if (!spend(module.size())) return std::nullopt;
        if (dotted_prefix(plain.text, module)) take(plain.entry);
      }
    for (const Expression& pattern : patterns_) {
      if (!spend(kExpressionCost + module.size())) return std::nullopt;
      if (!pattern.regex) continue;
      const Result<bool> matched = pattern.regex->fullmatch(module);
      if (matched && *matched) take(pattern.entry);
    }
    return first;
  }
  for (const auto& [length, list] : plain_) {
    if (length > module.size()) break;
    const std::string_view tail = module.substr(module.size() - length);
    for (const Plain& plain : list) {
      if (!spend(4 + length / 4)) return std::nullopt;
      if (tail == plain.text || dotted_prefix(plain.text, module)) take(plain.entry);
    }
  }
  for (const Expression& pattern : patterns_) {
    if (!spend(kExpressionCost + module.size())) return std::nullopt;
    if (ends_with(module, pattern.text)) take(pattern.entry);
    if (!pattern.regex) continue;
    const Result<bool> matched = pattern.regex->match(module);
    if (matched && *matched) take(pattern.entry);
  }
  return first;
}

std::optional<uint32_t> Exclusions::find_glob(std::string_view module) {
  std::optional<uint32_t> first;
  const auto take = [&](uint32_t entry) { first = std::min(first.value_or(entry), entry); };
  if (const auto found = by_text_.find(module); found != by_text_.end()) take(found->second);
  for (const Expression& pattern : patterns_) {
    if (!spend(4 + pattern.head.size() / 4)) return std::nullopt;
    if (!starts_with(module, pattern.head) || pattern.text.find_first_of("*?") == std::string::npos) continue;
    if (!spend(module.size() * pattern.text.size())) return std::nullopt;
    if (pattern.glob->matches(module)) take(pattern.entry);
  }
  return first;
}

const Exclusion* Exclusions::find(std::string_view module, ExclusionDialect dialect) {
  const std::optional<uint32_t> found =
      dialect == ExclusionDialect::kTransformersFp8 ? find_fp8(module) : find_glob(module);
  return found ? &entries_[*found] : nullptr;
}

bool Exclusions::may_cover(std::string_view module) {
  for (const std::string& text : plain_covers_) {
    if (!spend(text.size() + module.size())) return true;
    if (occurs_dotted(text, module)) return true;
  }
  for (const Expression& cover : covers_) {
    if (!spend(kExpressionCost + module.size() * cover.text.size())) return true;
    if (contains(module, cover.text) || cover.glob->matches(module)) return true;
    if (!cover.regex) continue;
    const Result<std::optional<RegexMatch>> found = cover.regex->search(module);
    if (!found || *found) return true;
  }
  return false;
}

}  // namespace tftf
