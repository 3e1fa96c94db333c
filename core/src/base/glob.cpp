#include "tftf/base/glob.h"

#include <algorithm>

#include "tftf/base/utf8.h"

namespace tftf {
namespace {

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  points.reserve(text.size());
  for (uint64_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    points.push_back(point.value);
    at += point.length;
  }
  return points;
}

}  // namespace

Glob::Glob(std::string_view pattern) : pattern_(pattern) {
  const std::vector<uint32_t> p = code_points(pattern);
  for (size_t i = 0; i < p.size();) {
    const uint32_t c = p[i++];
    Token token;
    if (c == '*') {
      if (!tokens_.empty() && tokens_.back().kind == Token::Kind::kStar) continue;
      token.kind = Token::Kind::kStar;
    } else if (c == '?') {
      token.kind = Token::Kind::kAny;
    } else if (c == '[') {
      size_t close = i;
      if (close < p.size() && p[close] == '!') ++close;
      if (close < p.size() && p[close] == ']') ++close;
      while (close < p.size() && p[close] != ']') ++close;
      if (close < p.size()) {
        add_set(std::vector<uint32_t>(p.begin() + static_cast<ptrdiff_t>(i),
                                      p.begin() + static_cast<ptrdiff_t>(close)));
        i = close + 1;
        continue;
      }
      token.literal = c;
    } else {
      token.literal = c;
    }
    tokens_.push_back(std::move(token));
  }
}

// The body between the brackets. As Python does it: the body is cut at range hyphens into chunks, of which
// the last character of one and the first of the next bound a range; where a range is empty both bounds go
// and the chunks join.
void Glob::add_set(const std::vector<uint32_t>& body) {
  std::vector<std::vector<uint32_t>> chunks;
  size_t start = 0;
  for (size_t k = body[0] == '!' ? 2 : 1; k < body.size();) {
    if (body[k] != '-') {
      ++k;
      continue;
    }
    chunks.emplace_back(body.begin() + static_cast<ptrdiff_t>(start),
                        body.begin() + static_cast<ptrdiff_t>(k));
    start = k + 1;
    k += 3;
  }
  if (start < body.size()) {
    chunks.emplace_back(body.begin() + static_cast<ptrdiff_t>(start), body.end());
  } else {
    chunks.back().push_back('-');
  }
  for (size_t k = chunks.size() - 1; k > 0; --k) {
    if (chunks[k - 1].back() <= chunks[k].front()) continue;
    chunks[k - 1].pop_back();
    chunks[k - 1].insert(chunks[k - 1].end(), chunks[k].begin() + 1, chunks[k].end());
    chunks.erase(chunks.begin() + static_cast<ptrdiff_t>(k));
  }

  Token token;
  token.kind = Token::Kind::kSet;
  if (!chunks[0].empty() && chunks[0][0] == '!') {
    token.negated = true;
    chunks[0].erase(chunks[0].begin());
  }
  for (size_t k = 0; k < chunks.size(); ++k) {
    const std::vector<uint32_t>& chunk = chunks[k];
    const size_t skip_first = k > 0 ? 1 : 0;  // already the end of the range before it
    const bool opens_range = k + 1 < chunks.size();
    for (size_t i = skip_first; i < chunk.size(); ++i) {
      const bool last = i + 1 == chunk.size();
      token.ranges.emplace_back(chunk[i], last && opens_range ? chunks[k + 1].front() : chunk[i]);
    }
  }
  tokens_.push_back(std::move(token));
}

bool Glob::accepts(const Token& token, uint32_t code_point) {
  switch (token.kind) {
    case Token::Kind::kAny:
      return true;
    case Token::Kind::kLiteral:
      return token.literal == code_point;
    case Token::Kind::kSet: {
      const bool in = std::any_of(token.ranges.begin(), token.ranges.end(), [code_point](const auto& range) {
        return range.first <= code_point && code_point <= range.second;
      });
      return in != token.negated;
    }
    case Token::Kind::kStar:
      break;
  }
  return false;
}

bool Glob::matches(std::string_view text) const {
  // On a mismatch the last star takes one character more; earlier stars need never be tried again.
  uint64_t at = 0;
  size_t token = 0;
  std::optional<size_t> star;
  uint64_t star_at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (token < tokens_.size() && tokens_[token].kind == Token::Kind::kStar) {
      star = token++;
      star_at = at;
    } else if (token < tokens_.size() && accepts(tokens_[token], point.value)) {
      ++token;
      at += point.length;
    } else if (star) {
      token = *star + 1;
      star_at += code_point_at(text, star_at).length;
      at = star_at;
    } else {
      return false;
    }
  }
  while (token < tokens_.size() && tokens_[token].kind == Token::Kind::kStar) ++token;
  return token == tokens_.size();
}

bool glob_selects(const std::vector<Glob>& include, const std::vector<Glob>& exclude, std::string_view name) {
  const auto hit = [name](const Glob& glob) { return glob.matches(name); };
  if (!include.empty() && std::none_of(include.begin(), include.end(), hit)) return false;
  return std::none_of(exclude.begin(), exclude.end(), hit);
}

}  // namespace tftf
