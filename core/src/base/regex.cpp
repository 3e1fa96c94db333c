#include "tftf/base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "regex_syntax.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint32_t kMatchSteps = 1'000'000;
constexpr uint32_t kHeapKibibytes = 16 * 1024;
constexpr uint32_t kDepth = 10'000;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

std::string pcre2_message(int code) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

Error pattern_error(std::string_view pattern, std::string_view why) {
  return Error{
      .code = ErrorCode::kUsage,
      .message = "The pattern " + quote_name(pattern) + " is not accepted: " + std::string(why) + ".",
      .found = std::string(pattern)};
}

Error template_error(std::string_view replacement, std::string_view why) {
  return Error{
      .code = ErrorCode::kUsage,
      .message = "The replacement " + quote_name(replacement) + " is not accepted: " + std::string(why) + ".",
      .found = std::string(replacement)};
}

}  // namespace

struct Regex::State {
  std::string pattern;
  uint32_t groups = 0;
  std::vector<std::pair<std::string, uint32_t>> names;
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_context, Free> context;
  std::unique_ptr<pcre2_match_data, Free> data;
};

Regex::Regex(std::unique_ptr<State> state) : state_(std::move(state)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

const std::string& Regex::pattern() const { return state_->pattern; }
uint32_t Regex::group_count() const { return state_->groups; }

Result<Regex> Regex::compile(std::string_view pattern) {
  Result<regex::Syntax> syntax = regex::read_syntax(pattern);
  if (!syntax) return std::move(syntax).error();

  auto state = std::make_unique<State>();
  state->pattern = pattern;
  state->groups = syntax->groups;
  state->names = std::move(syntax->names);

  // ALT_CIRCUMFLEX: in multi-line mode Python's ^ also matches behind a newline that ends the text.
  uint32_t options = PCRE2_UTF | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UCP;
  if (syntax->ignore_case) options |= PCRE2_CASELESS;
  if (syntax->multi_line) options |= PCRE2_MULTILINE;
  if (syntax->dot_all) options |= PCRE2_DOTALL;
  const std::unique_ptr<pcre2_compile_context, Free> how(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(how.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  state->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(syntax->pattern.data()),
                                  syntax->pattern.size(), options, &code, &offset, how.get()));
  if (!state->code) return pattern_error(pattern, pcre2_message(code));
  state->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(state->context.get(), kMatchSteps);
  pcre2_set_heap_limit(state->context.get(), kHeapKibibytes);
  pcre2_set_depth_limit(state->context.get(), kDepth);
  state->data.reset(pcre2_match_data_create_from_pattern(state->code.get(), nullptr));
  return Regex(std::move(state));
}

Result<std::optional<RegexMatch>> Regex::run(std::string_view text, uint64_t from, uint32_t options) const {
  const int count = pcre2_match(state_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                from, options, state_->data.get(), state_->context.get());
  if (count == PCRE2_ERROR_NOMATCH) return std::optional<RegexMatch>();
  if (count == PCRE2_ERROR_MATCHLIMIT || count == PCRE2_ERROR_HEAPLIMIT || count == PCRE2_ERROR_DEPTHLIMIT) {
    return pattern_error(pattern(), "it backtracks past the limit on the text " + quote_name(text));
  }
  if (count <= 0) return pattern_error(pattern(), pcre2_message(count) + " on the text " + quote_name(text));
  RegexMatch match;
  match.groups.resize(state_->groups + 1);
  const PCRE2_SIZE* ranges = pcre2_get_ovector_pointer(state_->data.get());
  for (size_t i = 0; i < match.groups.size() && i < static_cast<size_t>(count); ++i) {
    if (ranges[2 * i] != PCRE2_UNSET) match.groups[i] = {ranges[2 * i], ranges[2 * i + 1]};
  }
  return std::optional<RegexMatch>(std::move(match));
}

Result<std::optional<RegexMatch>> Regex::search(std::string_view text, uint64_t from) const {
  return run(text, from, 0);
}

Result<bool> Regex::match(std::string_view text) const {
  auto found = run(text, 0, PCRE2_ANCHORED);
  if (!found) return std::move(found).error();
  return found->has_value();
}

Result<bool> Regex::fullmatch(std::string_view text) const {
  auto found = run(text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
  if (!found) return std::move(found).error();
  return found->has_value();
}

Result<RegexTemplate> Regex::parse_template(std::string_view replacement) const {
  const std::string_view r = replacement;
  if (find_invalid_utf8(r)) return template_error(r, "it is not valid UTF-8");
  RegexTemplate result;
  std::string literal;
  size_t at = 0;
  const auto digit_at = [&](size_t i) {
    return i < r.size() && regex::is_ascii_digit(static_cast<unsigned char>(r[i]));
  };
  const auto octal_at = [&](size_t i) {
    return i < r.size() && regex::is_octal_digit(static_cast<unsigned char>(r[i]));
  };
  const auto value_at = [&](size_t i) { return static_cast<uint32_t>(r[i] - '0'); };
  const auto add_group = [&](uint32_t group) {
    result.pieces.push_back({std::move(literal), group});
    literal.clear();
  };
  while (at < r.size()) {
    if (r[at] != '\\') {
      literal += r[at++];
      continue;
    }
    if (at + 1 == r.size()) return template_error(r, "bad escape (end of pattern)");
    const char c = r[at + 1];
    at += 2;
    if (c == 'g') {
      if (at == r.size() || r[at] != '<') return template_error(r, "missing < behind \\g");
      const size_t close = r.find('>', at);
      if (close == std::string_view::npos) return template_error(r, "missing > behind \\g<");
      const std::string_view name = r.substr(at + 1, close - at - 1);
      at = close + 1;
      std::optional<uint32_t> group;
      if (regex::is_identifier(name)) {
        for (const auto& [known, number] : state_->names) {
          if (known == name) group = number;
        }
        if (!group) return template_error(r, "unknown group name " + quote_name(name));
      } else {
        group = 0;
        for (const char d : name) {
          if (!regex::is_ascii_digit(static_cast<unsigned char>(d))) group.reset();
          if (!group) break;
          group = *group > 100'000 ? *group : *group * 10 + static_cast<uint32_t>(d - '0');
        }
        if (!group || name.empty())
          return template_error(r, "bad character in group name " + quote_name(name));
        if (*group > state_->groups) return template_error(r, "invalid group reference " + std::string(name));
      }
      add_group(*group);
    } else if (c == '0') {
      uint32_t value = 0;
      for (int i = 0; i < 2 && octal_at(at); ++i) value = value * 8 + value_at(at++);
      append_utf8(literal, value);
    } else if (regex::is_ascii_digit(static_cast<unsigned char>(c))) {
      uint32_t number = static_cast<uint32_t>(c - '0');
      if (digit_at(at)) {
        if (regex::is_octal_digit(static_cast<unsigned char>(c)) && octal_at(at) && octal_at(at + 1)) {
          const uint32_t value = number * 64 + value_at(at) * 8 + value_at(at + 1);
          if (value > 0377) return template_error(r, "octal escape value outside of range 0-0o377");
          at += 2;
          append_utf8(literal, value);
          continue;
        }
        number = number * 10 + value_at(at++);
      }
      if (number > state_->groups)
        return template_error(r, "invalid group reference " + std::to_string(number));
      add_group(number);
    } else if (const uint32_t control = regex::control_escape(static_cast<unsigned char>(c))) {
      literal += static_cast<char>(control);
    } else if (c == '\\') {
      literal += '\\';
    } else if (regex::is_ascii_letter(static_cast<unsigned char>(c))) {
      return template_error(r, std::string("bad escape \\") + c);
    } else {  // an unknown escape of anything else stays as it is
      literal += '\\';
      literal += c;
    }
  }
  result.pieces.push_back({std::move(literal), std::nullopt});
  return result;
}

Result<std::string> Regex::substitute(std::string_view text, const RegexTemplate& replacement) const {
  std::string result;
  uint64_t from = 0, copied = 0;
  bool was_empty = false;
  // The first run has checked the whole text; once for every match would take time that grows with its square.
  uint32_t checked = 0;
  while (from <= text.size()) {
    // After an empty match the next one at the same place must not be empty.
    auto found = run(text, from, checked | (was_empty ? PCRE2_NOTEMPTY_ATSTART : 0));
    checked = PCRE2_NO_UTF_CHECK;
    if (!found) return std::move(found).error();
    if (!*found) break;
    const auto [begin, end] = *(*found)->groups[0];
    result += text.substr(to_size(copied), to_size(begin - copied));
    for (const RegexTemplate::Piece& piece : replacement.pieces) {
      result += piece.literal;
      if (!piece.group) continue;
      if (const auto& range = (*found)->groups[*piece.group]) {
        result += text.substr(to_size(range->first), to_size(range->second - range->first));
      }
    }
    from = copied = end;
    was_empty = begin == end;
  }
  result += text.substr(to_size(copied));
  return result;
}

}  // namespace tftf
