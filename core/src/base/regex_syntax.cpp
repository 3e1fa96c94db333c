#include "regex_syntax.h"

#include <algorithm>
#include <optional>

#include "regex_cursor.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf::regex {
namespace {

constexpr uint64_t kMaxPattern = 10'000;  // code points
constexpr uint32_t kMaxNesting = 100;     // groups in groups
constexpr uint64_t kMaxRepeat = 65'535;   // PCRE2's
constexpr std::string_view kSpaces = " \t\n\r\v\f";

struct Flags {
  bool i = false, m = false, s = false, x = false;
  bool* by_letter(uint32_t letter) {
    switch (letter) {
      case 'i':
        return &i;
      case 'm':
        return &m;
      case 's':
        return &s;
      case 'x':
        return &x;
      default:
        return nullptr;
    }
  }
  bool any() const { return i || m || s || x; }
};

// A piece of the pattern that a quantifier can apply to.
struct Part {
  enum class Kind { kItem, kAnchor, kAssertion, kRepeat };
  std::string text;
  Kind kind = Kind::kItem;
  uint64_t low = 1, high = 1;  // width in characters
};

// A whole alternation or branch.
struct Span {
  std::string text;
  uint64_t low = 0, high = 0;
};

class Reader : private PatternCursor {
 public:
  using PatternCursor::PatternCursor;

  Result<Syntax> read() {
    if (find_invalid_utf8(source_)) return error("it is not valid UTF-8", 0);
    if (points_.size() > kMaxPattern) return error("it is longer than 10000 characters", kMaxPattern);
    Result<Span> all = read_alternation(false, 0);
    if (!all) return std::move(all).error();
    if (!at_end()) return error("unbalanced parenthesis", at_);
    Syntax syntax;
    syntax.pattern = std::move(all->text);
    syntax.ignore_case = global_.i;
    syntax.multi_line = global_.m;
    syntax.dot_all = global_.s;
    syntax.groups = static_cast<uint32_t>(group_widths_.size());
    syntax.names = std::move(names_);
    return syntax;
  }

 private:
  Result<Span> read_alternation(bool verbose, uint32_t nesting) {
    if (nesting > kMaxNesting) return error("groups are nested too deeply", at_);
    Span all;
    for (bool first = true;; first = false) {
      Result<Span> branch = read_branch(verbose, nesting, first && nesting == 0);
      if (!branch) return branch;
      all.low = first ? branch->low : std::min(all.low, branch->low);
      all.high = first ? branch->high : std::max(all.high, branch->high);
      all.text += branch->text;
      if (!accept('|')) return all;
      all.text += '|';
      if (nesting == 0) verbose = global_.x;
    }
  }

  // `opening`: global flags may stand at its start.
  Result<Span> read_branch(bool verbose, uint32_t nesting, bool opening) {
    std::vector<Part> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      const uint64_t start = at_;
      const uint32_t c = points_[to_size(at_++)];
      if (verbose && c < 0x80 && kSpaces.find(static_cast<char>(c)) != std::string_view::npos) continue;
      if (verbose && c == '#') {
        while (!at_end() && points_[to_size(at_++)] != '\n') {
        }
        continue;
      }
      switch (c) {
        case '\\': {
          Result<Part> part = read_escape(start);
          if (!part) return std::move(part).error();
          parts.push_back(std::move(*part));
          break;
        }
        case '[': {
          Result<Part> part = read_class(start);
          if (!part) return std::move(part).error();
          parts.push_back(std::move(*part));
          break;
        }
        case '*':
        case '+':
        case '?':
        case '{': {
          Result<bool> repeated = read_repeat(c, start, parts);
          if (!repeated) return std::move(repeated).error();
          if (!*repeated) parts.push_back(Part{literal(c)});
          break;
        }
        case '(': {
          Result<std::optional<Part>> part = read_group(start, verbose, nesting, opening && parts.empty());
          if (!part) return std::move(part).error();
          if (*part) {
            parts.push_back(std::move(**part));
          } else {
            verbose = global_.x;
          }
          break;
        }
        case '.':
          parts.push_back(Part{"."});
          break;
        case '^':
        case '$':
          parts.push_back(Part{std::string(1, static_cast<char>(c)), Part::Kind::kAnchor, 0, 0});
          break;
        default:
          parts.push_back(Part{literal(c)});
      }
    }
    Span span;
    for (const Part& part : parts) {
      span.text += part.text;
      span.low = saturate(span.low + part.low);
      span.high = saturate(span.high + part.high);
    }
    return span;
  }

  // False: a `{` that opens no quantifier and so is a literal.
  Result<bool> read_repeat(uint32_t c, uint64_t start, std::vector<Part>& parts) {
    uint64_t low = c == '+' ? 1 : 0, high = c == '?' ? 1 : kUnbounded;
    if (c == '{') {
      if (peek() == '}') return false;
      const std::optional<uint64_t> first = read_count();
      std::optional<uint64_t> second = first;
      if (accept(',')) second = read_count();
      if (!accept('}')) {
        at_ = start + 1;
        return false;
      }
      low = first.value_or(0);
      high = second.value_or(kUnbounded);
      if (low > kMaxRepeat || (second && high > kMaxRepeat))
        return error("a repeat count is above 65535", start);
      if (high < low) return error("min repeat greater than max repeat", start);
    }
    if (parts.empty() || parts.back().kind == Part::Kind::kAnchor) return error("nothing to repeat", start);
    Part& part = parts.back();
    if (part.kind == Part::Kind::kRepeat) return error("multiple repeat", start);
    // PCRE2 runs a repeated assertion once at most; in a group it is an item like any other.
    if (part.kind == Part::Kind::kAssertion) part.text = "(?:" + part.text + ")";
    if (low == 0 && high == kUnbounded) {
      part.text += '*';
    } else if (low == 1 && high == kUnbounded) {
      part.text += '+';
    } else if (low == 0 && high == 1) {
      part.text += '?';
    } else {
      part.text += '{' + std::to_string(low);
      if (high != low) part.text += ',';
      if (high != low && high != kUnbounded) part.text += std::to_string(high);
      part.text += '}';
    }
    if (accept('?')) {
      part.text += '?';
    } else if (accept('+')) {
      part.text += '+';
    }
    part.kind = Part::Kind::kRepeat;
    part.low = saturate(part.low * low);
    part.high = high == kUnbounded && part.high > 0 ? kUnbounded : saturate(part.high * high);
    return true;
  }

  // Outside classes; the backslash is read.
  Result<Part> read_escape(uint64_t start) {
    if (at_end()) return error("bad escape (end of pattern)", start);
    const uint32_t c = points_[to_size(at_++)];
    switch (c) {
      case 'd':
      case 'D':
      case 's':
      case 'S':
      case 'w':
      case 'W':
        return Part{std::string("\\") + static_cast<char>(c)};
      case 'A':
      case 'b':
        return Part{std::string("\\") + static_cast<char>(c), Part::Kind::kAnchor, 0, 0};
      case 'B':  // in Python no boundary, and so no \B, is in an empty text
        return Part{"(?:\\B(?!\\A\\z))", Part::Kind::kAnchor, 0, 0};
      case 'Z':
        return Part{"\\z", Part::Kind::kAnchor, 0, 0};
      default:
        break;
    }
    if (c == '0') return Part{literal(read_octal(0, 2))};
    if (is_ascii_digit(c)) {
      uint32_t number = c - '0';
      if (is_ascii_digit(peek())) {
        const uint32_t second = points_[to_size(at_++)];
        if (is_octal_digit(c) && is_octal_digit(second) && is_octal_digit(peek())) {
          const uint32_t value = read_octal((c - '0') * 8 + (second - '0'), 1);
          if (value > 0377) return error("octal escape value outside of range 0-0o377", start);
          return Part{literal(value)};
        }
        number = number * 10 + (second - '0');
      }
      return reference(number, start);
    }
    Result<uint32_t> character = read_character_escape(c, start);
    if (!character) return std::move(character).error();
    return Part{literal(*character)};
  }

  Result<Part> reference(uint32_t group, uint64_t start) const {
    if (group == 0 || group > group_widths_.size()) {
      return error("invalid group reference " + std::to_string(group), start);
    }
    const std::optional<std::pair<uint64_t, uint64_t>>& width = group_widths_[group - 1];
    if (!width) return error("cannot refer to an open group", start);
    if (look_behind_groups_ && group > *look_behind_groups_) {
      return error("cannot refer to group defined in the same lookbehind subpattern", start);
    }
    return Part{"\\g{" + std::to_string(group) + "}", Part::Kind::kItem, width->first, width->second};
  }

  struct ClassItem {
    std::string text;
    std::optional<uint32_t> character;  // nothing: \d and the like
  };
  Result<ClassItem> read_class_item(uint32_t c, uint64_t start) {
    if (c != '\\') return ClassItem{literal(c), c};
    if (at_end()) return error("bad escape (end of pattern)", start);
    const uint32_t escaped = points_[to_size(at_++)];
    switch (escaped) {
      case 'd':
      case 'D':
      case 's':
      case 'S':
      case 'w':
      case 'W':
        return ClassItem{std::string("\\") + static_cast<char>(escaped), std::nullopt};
      case 'b':
        return ClassItem{literal('\b'), '\b'};
      default:
        break;
    }
    if (is_octal_digit(escaped)) {
      const uint32_t value = read_octal(escaped - '0', 2);
      if (value > 0377) return error("octal escape value outside of range 0-0o377", start);
      return ClassItem{literal(value), value};
    }
    if (is_ascii_digit(escaped)) return error("bad escape", start);
    Result<uint32_t> character = read_character_escape(escaped, start);
    if (!character) return std::move(character).error();
    return ClassItem{literal(*character), *character};
  }

  Result<Part> read_class(uint64_t start) {
    std::string text = accept('^') ? "[^" : "[";
    for (bool first = true;; first = false) {
      if (at_end()) return error("unterminated character set", start);
      uint64_t item_start = at_;
      const uint32_t c = points_[to_size(at_++)];
      if (c == ']' && !first) break;
      Result<ClassItem> low = read_class_item(c, item_start);
      if (!low) return std::move(low).error();
      text += low->text;
      if (!accept('-')) continue;
      if (at_end()) return error("unterminated character set", start);
      const uint64_t high_start = at_;
      const uint32_t d = points_[to_size(at_++)];
      if (d == ']') {
        text += literal('-');
        break;
      }
      Result<ClassItem> high = read_class_item(d, high_start);
      if (!high) return std::move(high).error();
      if (!low->character || !high->character || *high->character < *low->character) {
        return error("bad character range", item_start);
      }
      text += '-' + high->text;
    }
    return Part{text + "]"};
  }

  // Nothing: global flags. The opening parenthesis is read.
  Result<std::optional<Part>> read_group(uint64_t start, bool verbose, uint32_t nesting,
                                         bool global_allowed) {
    std::string open = "(";
    std::string name;
    bool capture = true;
    if (accept('?')) {
      const uint32_t c = peek();
      if (c == kEnd) return error("unexpected end of pattern", at_);
      ++at_;
      if (c == 'P' && accept('<')) {
        const std::optional<std::string> read = read_name('>');
        if (!read) return error("missing >, unterminated name", start);
        if (!is_identifier(*read)) return error("bad character in group name " + quote_name(*read), start);
        name = *read;
      } else if (c == 'P' && accept('=')) {
        return read_named_reference(start);
      } else if (c == ':') {
        open = "(?:";
        capture = false;
      } else if (c == '=' || c == '!' || c == '<') {
        return read_assertion(c, start, verbose, nesting);
      } else if (c == '-' || Flags().by_letter(c) != nullptr) {
        --at_;
        Flags on, off;
        Result<bool> scoped = read_flags(start, on, off);
        if (!scoped) return std::move(scoped).error();
        if (!*scoped) {
          if (!global_allowed) return error("global flags not at the start of the expression", start);
          global_.i |= on.i, global_.m |= on.m, global_.s |= on.s, global_.x |= on.x;
          return std::optional<Part>();
        }
        verbose = (verbose || on.x) && !off.x;
        open = "(?" + flag_text(on, off) + ":";
        capture = false;
      } else {
        return error("the construct (?" + printable(c) + " is not supported", start);
      }
    }
    if (capture) {
      for (const auto& [known, number] : names_) {
        if (!name.empty() && known == name)
          return error("redefinition of group name " + quote_name(name), start);
      }
      group_widths_.emplace_back();
      if (!name.empty()) names_.emplace_back(name, static_cast<uint32_t>(group_widths_.size()));
    }
    const size_t number = group_widths_.size();
    Result<Span> inner = read_alternation(verbose, nesting + 1);
    if (!inner) return std::move(inner).error();
    if (!accept(')')) return error("missing ), unterminated subpattern", start);
    if (capture) group_widths_[number - 1] = {inner->low, inner->high};
    return std::optional<Part>(Part{open + inner->text + ")", Part::Kind::kItem, inner->low, inner->high});
  }

  Result<std::optional<Part>> read_named_reference(uint64_t start) {
    const std::optional<std::string> name = read_name(')');
    if (!name) return error("missing ), unterminated name", start);
    const auto known =
        std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.first == *name; });
    if (known == names_.end()) return error("unknown group name " + quote_name(*name), start);
    Result<Part> part = reference(known->second, start);
    if (!part) return std::move(part).error();
    return std::optional<Part>(std::move(*part));
  }

  // (?=, (?!, (?<=, (?<!; `c` is behind the question mark and already read.
  Result<std::optional<Part>> read_assertion(uint32_t c, uint64_t start, bool verbose, uint32_t nesting) {
    std::string open = "(?";
    const bool behind = c == '<';
    if (behind) {
      open += '<';
      c = peek();
      if (c != '=' && c != '!') return error("unknown extension ?<" + printable(c), start);
      ++at_;
    }
    open += static_cast<char>(c);
    const bool outermost = behind && !look_behind_groups_;
    if (outermost) look_behind_groups_ = group_widths_.size();
    Result<Span> inner = read_alternation(verbose, nesting + 1);
    if (!inner) return std::move(inner).error();
    if (outermost) look_behind_groups_.reset();
    if (!accept(')')) return error("missing ), unterminated subpattern", start);
    if (behind && inner->low != inner->high) return error("look-behind requires fixed-width pattern", start);
    return std::optional<Part>(Part{open + inner->text + ")", Part::Kind::kAssertion, 0, 0});
  }

  // "i-s:" or "im)" behind the question mark. True: they are a group's own, false: the whole pattern's.
  Result<bool> read_flags(uint64_t start, Flags& on, Flags& off) {
    Flags* to = &on;
    for (bool fresh = true;; fresh = false) {
      const uint32_t c = peek();
      if (c == kEnd) return error("missing -, : or )", start);
      ++at_;
      if (c == ':' || c == ')') {
        if (fresh) return error("missing flag", start);
        if (c == ')' && to == &off) return error("missing :", start);
        if ((on.i && off.i) || (on.m && off.m) || (on.s && off.s) || (on.x && off.x)) {
          return error("bad inline flags: flag turned on and off", start);
        }
        return c == ':';
      }
      if (c == '-' && to == &on) {
        to = &off;
        fresh = true;
        const uint32_t next = peek();
        if (Flags().by_letter(next) == nullptr) return error("missing flag", start);
        continue;
      }
      bool* flag = to->by_letter(c);
      if (flag == nullptr)
        return error("the inline flag " + printable(c) + " is not supported (only i m s x)", start);
      *flag = true;
    }
  }

  static std::string flag_text(const Flags& on, const Flags& off) {
    // x is spent here: white space and comments are already gone.
    std::string text = std::string(on.i ? "i" : "") + (on.m ? "m" : "") + (on.s ? "s" : "");
    const std::string minus = std::string(off.i ? "i" : "") + (off.m ? "m" : "") + (off.s ? "s" : "");
    return minus.empty() ? text : text + "-" + minus;
  }

  Flags global_;
  std::vector<std::optional<std::pair<uint64_t, uint64_t>>> group_widths_;  // nothing while a group is open
  std::vector<std::pair<std::string, uint32_t>> names_;
  std::optional<size_t> look_behind_groups_;  // inside a look-behind: groups there were before it
};

}  // namespace

Result<Syntax> read_syntax(std::string_view pattern) { return Reader(pattern).read(); }

}  // namespace tftf::regex
