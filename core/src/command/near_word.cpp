// Mistyped words: which known one is near.
#include <algorithm>
#include <numeric>

#include "tftf/command/command_line.h"

namespace tftf {
namespace {

// Letters inserted, left out, changed, or two neighbours exchanged.
size_t word_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

std::string lower_word(std::string_view word) {
  std::string text(word);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return text;
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  const std::string wanted = lower_word(word);
  // A third of the letters may be wrong: one of up to five, two of six.
  const size_t most = wanted.size() < 2 ? 0 : std::clamp<size_t>(wanted.size() / 3, 1, 3);
  std::string best;
  size_t distance = most + 1;
  for (const std::string& candidate : candidates) {
    const size_t one = word_distance(wanted, lower_word(candidate));
    if (one >= distance) continue;
    distance = one;
    best = candidate;
  }
  if (!best.empty()) return best;
  // A beginning that only one has, of three letters or more.
  for (const std::string& candidate : candidates) {
    if (wanted.size() < 3 || lower_word(candidate).compare(0, wanted.size(), wanted) != 0) continue;
    if (!best.empty()) return "";
    best = candidate;
  }
  return best;
}

}  // namespace tftf
