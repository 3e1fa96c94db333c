// Regular expressions: the part of Python's `re` on which all hosts agree (spec tftf 2.3), PCRE2 behind it.
//
// Accepted: literals and Python's escapes for characters, `.`, classes with \d \w \s (ASCII), anchors ^ $ \A
// \Z \b \B, groups ( ) (?: ) (?P<n> ), backreferences \1 and (?P=n), alternation, greedy, lazy and possessive
// quantifiers, look-ahead, fixed-width look-behind, inline flags i m s x. Everything else is refused, also
// where PCRE2 would take it.
// `$` also matches before a final newline, `{,n}` is `{0,n}`, an unset group in a template is empty: as in
// Python.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/result.h"

namespace tftf {

struct RegexMatch {
  // Byte ranges: the whole match, then groups 1, 2, …; nothing for a group that took no part.
  std::vector<std::optional<std::pair<uint64_t, uint64_t>>> groups;
};

// A replacement in Python's template language: \1..\99, \g<1>, \g<name>, \g<0>, \n \t \r \a \b \f \v \\,
// octal escapes. Made for one pattern, since group names and numbers are checked.
class RegexTemplate {
 public:
  struct Piece {
    std::string literal;
    std::optional<uint32_t> group;  // after the literal
  };
  std::vector<Piece> pieces;
};

// Matching is not for several threads at once on one object (it keeps its working memory); copies are not
// offered.
class Regex {
 public:
  // Errors (kUsage): not a pattern, or outside the subset; the message names the pattern and the position (in
  // code points, from 0).
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  const std::string& pattern() const;
  uint32_t group_count() const;

  // All matching can fail: kUsage when a limit is passed (match steps 1,000,000, heap 16 MiB, depth 10,000:
  // the pattern backtracks without end on this text) and when `text` is not UTF-8. The first match that
  // begins at or after `from`.
  Result<std::optional<RegexMatch>> search(std::string_view text, uint64_t from = 0) const;
  Result<bool> match(std::string_view text) const;      // at the start
  Result<bool> fullmatch(std::string_view text) const;  // of the whole text

  // Errors (kUsage): an unknown escape of an ASCII letter, an unknown group.
  Result<RegexTemplate> parse_template(std::string_view replacement) const;
  // Python's re.sub: every non-overlapping match, leftmost first, empty ones too (also right after a match
  // that was not empty).
  Result<std::string> substitute(std::string_view text, const RegexTemplate& replacement) const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  Result<std::optional<RegexMatch>> run(std::string_view text, uint64_t from, uint32_t options) const;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
