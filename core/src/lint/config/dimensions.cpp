#include "lint/config/dimensions.h"

#include <algorithm>
#include <charconv>

#include "tftf/base/checked.h"

namespace tftf {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view word_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_word_character(text[end])) ++end;
  return text.substr(at, end - at);
}

// Keys that transformers saves under another name, too.
constexpr std::pair<std::string_view, std::string_view> kSavedAs[] = {{"num_experts", "num_local_experts"}};

// Recursive descent over one expression; the texts are our own tables, so it meets no malformed one.
template <class Lookup>
class Evaluator {
 public:
  Evaluator(std::string_view text, Lookup lookup) : text_(text), lookup_(lookup) {}

  std::optional<uint64_t> sum() {
    auto value = product();
    while (take("+")) value = combine(value, product(), checked_add);
    return value;
  }

 private:
  std::optional<uint64_t> product() {
    auto value = factor();
    for (;;) {
      if (take("//"))
        value = combine(value, factor(), [](uint64_t a, uint64_t b) -> std::optional<uint64_t> {
          if (b == 0) return std::nullopt;
          return a / b;
        });
      else if (take("*"))
        value = combine(value, factor(), checked_mul);
      else
        return value;
    }
  }
  std::optional<uint64_t> factor() {
    if (take("(")) {
      auto value = sum();
      take(")");
      return value;
    }
    const std::string_view word = word_at(text_, at_);
    at_ += word.size();
    uint64_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && stop == word.data() + word.size()) return number;
    return lookup_(word);
  }
  bool take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  template <class Operation>
  static std::optional<uint64_t> combine(std::optional<uint64_t> a, std::optional<uint64_t> b,
                                         Operation operation) {
    if (!a || !b) return std::nullopt;
    return operation(*a, *b);
  }

  std::string_view text_;
  Lookup lookup_;
  size_t at_ = 0;
};

}  // namespace

const FamilyDerived* Dimensions::find_derived(std::string_view name) const {
  for (const FamilyDerived& derived : family_.derived)
    if (derived.name == name) return &derived;
  return nullptr;
}

const JsonValue* Dimensions::member(std::string_view key) const {
  if (const JsonValue* value = config_.get(key)) return value;
  for (const auto& [name, saved] : kSavedAs)
    if (name == key) return config_.get(saved);
  return nullptr;
}

bool Dimensions::present(std::string_view key) const {
  const JsonValue* value = member(key);
  return value && !(key == "time_step_rank" && value->is_string() && value->text == "auto");
}

DimensionValue Dimensions::key_or(std::string_view key, std::string_view otherwise) const {
  if (!present(key) && !otherwise.empty()) return evaluate(otherwise);
  DimensionValue out;
  const JsonValue* given = member(key);
  if (const auto value = given ? given->as_integer() : std::nullopt; value && *value >= 1)
    out.value = static_cast<uint64_t>(*value);
  else
    out.bad_keys.push_back(key);
  return out;
}

DimensionValue Dimensions::evaluate(std::string_view expression) const {
  DimensionValue out;
  auto lookup = [&](std::string_view word) {
    const FamilyDerived* derived = find_derived(word);
    DimensionValue part = derived ? key_or(derived->key, derived->otherwise) : key_or(word, {});
    for (std::string_view bad : part.bad_keys)
      if (std::find(out.bad_keys.begin(), out.bad_keys.end(), bad) == out.bad_keys.end())
        out.bad_keys.push_back(bad);
    return part.value;
  };
  out.value = Evaluator(expression, lookup).sum();
  return out;
}

std::string Dimensions::spelled(std::string_view expression) const {
  std::string out;
  for (size_t at = 0; at < expression.size();) {
    const std::string_view word = word_at(expression, at);
    if (word.empty()) {
      out += expression[at++];
      continue;
    }
    const FamilyDerived* derived = find_derived(word);
    out += derived ? derived->key : word;
    at += word.size();
  }
  return out;
}

}  // namespace tftf
