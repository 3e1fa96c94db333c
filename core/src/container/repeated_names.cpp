#include "container/repeated_names.h"

#include <algorithm>
#include <cstring>

#include "container/name_rules.h"

namespace tftf {
namespace {

char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Eight characters at once: bit 7 of a byte of `upper` is set where it is in 'A'..'Z'.
uint64_t fold_word(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t low = word & 0x7F * kOnes;
  const uint64_t upper =
      (low + (0x80 - 'A') * kOnes) & ~(low + (0x80 - 'Z' - 1) * kOnes) & ~word & 0x80 * kOnes;
  return word | upper >> 2;
}

// Equal for names that are equal after ASCII case folding. Others may be equal too: they cost a comparison.
uint32_t folded_hash(std::string_view name) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t hash = name.size() * kMultiplier;
  const char* at = name.data();
  size_t left = name.size();
  while (left > 0) {
    uint64_t word = 0;
    const size_t step = left < 8 ? left : 8;
    std::memcpy(&word, at, step);
    hash = (hash ^ fold_word(word)) * kMultiplier;
    hash ^= hash >> 29;
    at += step;
    left -= step;
  }
  return static_cast<uint32_t>(hash >> 32);
}

int compare_folded(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    const auto x = static_cast<unsigned char>(fold(a[i]));
    const auto y = static_cast<unsigned char>(fold(b[i]));
    if (x != y) return x < y ? -1 : 1;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

}  // namespace

void check_repeated_names(const TextList& names, uint64_t text_offset, FindingList& findings) {
  // Sorting, not a hash table: a header made to collide costs a logarithm more, not a square.
  struct Keyed {
    uint32_t hash;
    uint32_t entry;
  };
  std::vector<Keyed> keyed(names.size());
  for (uint32_t i = 0; i < names.size(); ++i) keyed[i] = {folded_hash(names[i]), i};
  std::sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    const std::string_view x = names[a.entry];
    const std::string_view y = names[b.entry];
    if (const int folded = compare_folded(x, y)) return folded < 0;
    if (const int exact = x.compare(y)) return exact < 0;
    return a.entry < b.entry;
  });

  struct Repeated {
    uint32_t second;  // entry that repeats the name
    uint32_t count;
  };
  struct Collision {
    uint32_t entry;
    uint32_t other;
  };
  std::vector<Repeated> repeated;
  std::vector<Collision> collisions;
  for (size_t first = 0; first < keyed.size();) {
    // A group of names that are equal but for their case; the first of them by bytes comes first.
    size_t end = first;
    while (end < keyed.size() && keyed[end].hash == keyed[first].hash &&
           compare_folded(names[keyed[end].entry], names[keyed[first].entry]) == 0) {
      const size_t same = end;
      const std::string_view exact = names[keyed[same].entry];
      while (end < keyed.size() && keyed[end].hash == keyed[first].hash && names[keyed[end].entry] == exact)
        ++end;
      if (end - same > 1) repeated.push_back({keyed[same + 1].entry, static_cast<uint32_t>(end - same)});
      if (same != first) collisions.push_back({keyed[same].entry, keyed[first].entry});
    }
    first = end;
  }

  std::sort(repeated.begin(), repeated.end(),
            [](const Repeated& a, const Repeated& b) { return a.second < b.second; });
  std::sort(collisions.begin(), collisions.end(),
            [](const Collision& a, const Collision& b) { return a.entry < b.entry; });
  for (const Repeated& one : repeated) {
    Diagnostic* finding = findings.add(Rule::ST022);
    if (!finding) continue;
    const std::string text(names[one.second]);
    finding->subject = text;
    finding->pointer = entry_pointer(text);
    finding->offset = text_offset + names.token_at(one.second);
    finding->values = {{"tensor", text}, {"count", uint64_t{one.count}}};
  }
  for (const Collision& one : collisions) {
    Diagnostic* finding = findings.add(Rule::ST067);
    if (!finding) continue;
    const std::string text(names[one.entry]);
    finding->subject = text;
    finding->pointer = entry_pointer(text);
    finding->offset = text_offset + names.token_at(one.entry);
    finding->values = {{"tensor", text}, {"other", std::string(names[one.other])}};
  }
}

}  // namespace tftf
