// Name patterns with the rules of Python's fnmatch (spec tftf 2.2), on whole names, case-sensitive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tftf {

// `*` any run of characters ('/', '.' and newline too), `?` one code point, `[seq]` and `[!seq]` sets with
// ranges: `]` standing first is literal, `[` without a closing `]` is literal, an empty range such as `[z-a]`
// matches nothing. There is no escape character: write `[*]`.
class Glob {
 public:
  // Every text is a pattern.
  explicit Glob(std::string_view pattern);
  // Whether the whole of `text` (UTF-8; a malformed byte is one character) matches. Time at most pattern ×
  // text.
  bool matches(std::string_view text) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Token {
    enum class Kind : uint8_t { kStar, kAny, kLiteral, kSet };
    Kind kind = Kind::kLiteral;
    bool negated = false;
    uint32_t literal = 0;
    std::vector<std::pair<uint32_t, uint32_t>> ranges;  // kSet: inclusive
  };
  void add_set(const std::vector<uint32_t>& body);
  static bool accepts(const Token& token, uint32_t code_point);

  std::string pattern_;
  std::vector<Token> tokens_;
};

// Keep when (no include, or one matches) and no exclude matches.
bool glob_selects(const std::vector<Glob>& include, const std::vector<Glob>& exclude, std::string_view name);

}  // namespace tftf
