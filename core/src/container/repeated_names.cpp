#include "container/repeated_names.h"

#include <algorithm>
#include <cstring>

#include "container/name_rules.h"

namespace tftf {
namespace {

// Eight characters at once, in lower case: bit 7 of a byte of `upper` is set where it is in 'A'..'Z'.
uint64_t fold_word(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t low = word & 0x7F * kOnes;
  const uint64_t upper =
      (low + (0x80 - 'A') * kOnes) & ~(low + (0x80 - 'Z' - 1) * kOnes) & ~word & 0x80 * kOnes;
  return word | upper >> 2;
}

uint64_t load_word(std::string_view text, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, std::min<size_t>(8, text.size() - at));
  return word;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

// The upper half is equal for names that are equal after ASCII case folding, all of it for equal names. Others
// may share it too: they cost a comparison.
uint64_t name_key(std::string_view name) {
  uint64_t folded = name.size();
  uint64_t exact = ~folded;
  for (size_t at = 0; at < name.size(); at += 8) {
    const uint64_t word = load_word(name, at);
    folded = mix(folded, fold_word(word));
    exact = mix(exact, word);
  }
  return mix(folded, 0) << 32 | (mix(exact, 0) & 0xFFFF'FFFFu);
}

bool equal_folded(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t at = 0; at < a.size(); at += 8)
    if (fold_word(load_word(a, at)) != fold_word(load_word(b, at))) return false;
  return true;
}

// Any order in which names that are equal but for their case stand together.
bool less_folded(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size();
  for (size_t at = 0; at < a.size(); at += 8) {
    const uint64_t x = fold_word(load_word(a, at));
    const uint64_t y = fold_word(load_word(b, at));
    if (x != y) return x < y;
  }
  return false;
}

class Groups {
 public:
  explicit Groups(const TextList& names) : names_(names) {
    // Sorting, not a hash table: a header made to collide costs a logarithm more, not a square.
    keyed_.resize(names.size());
    for (uint32_t i = 0; i < names.size(); ++i) keyed_[i] = {name_key(names[i]), i};
    std::sort(keyed_.begin(), keyed_.end(), [&](const Keyed& a, const Keyed& b) {
      if (a.key != b.key) return a.key < b.key;
      const std::string_view x = names[a.entry];
      const std::string_view y = names[b.entry];
      return x != y ? x < y : a.entry < b.entry;
    });
    find_repeated();
  }

  struct Repeated {
    uint32_t second;  // the entry that repeats the name
    uint32_t count;
  };
  struct Collision {
    uint32_t entry;
    uint32_t other;  // the first by bytes of those that differ from it only in case
  };
  // Both in the order of entries.
  std::vector<Repeated> repeated;
  std::vector<Collision> collisions;

 private:
  struct Keyed {
    uint64_t key;
    uint32_t entry;
  };

  void find_repeated() {
    std::vector<uint32_t> distinct;  // of those that share the upper half of the key
    for (size_t begin = 0, end = 0; begin < keyed_.size(); begin = end) {
      const uint32_t entry = keyed_[begin].entry;
      end = begin + 1;  // comparing it with itself would fetch its text
      while (end < keyed_.size() && keyed_[end].key == keyed_[begin].key &&
             names_[keyed_[end].entry] == names_[entry])
        ++end;
      if (end - begin > 1) repeated.push_back({keyed_[begin + 1].entry, static_cast<uint32_t>(end - begin)});
      distinct.push_back(entry);
      if (end < keyed_.size() && keyed_[end].key >> 32 == keyed_[begin].key >> 32) continue;
      if (distinct.size() > 1) find_collisions(distinct);
      distinct.clear();
    }
    std::sort(repeated.begin(), repeated.end(),
              [](const Repeated& a, const Repeated& b) { return a.second < b.second; });
    std::sort(collisions.begin(), collisions.end(),
              [](const Collision& a, const Collision& b) { return a.entry < b.entry; });
  }

  void find_collisions(std::vector<uint32_t>& distinct) {
    // Usually all of them differ in case only; sorting is for keys that are equal by chance or by design.
    auto same = [&](uint32_t a, uint32_t b) { return equal_folded(names_[a], names_[b]); };
    const bool one_group =
        std::all_of(distinct.begin(), distinct.end(), [&](uint32_t e) { return same(e, distinct[0]); });
    if (!one_group)
      std::sort(distinct.begin(), distinct.end(),
                [&](uint32_t a, uint32_t b) { return less_folded(names_[a], names_[b]); });
    for (size_t begin = 0, end = 0; begin < distinct.size(); begin = end) {
      uint32_t first = distinct[begin];
      for (end = begin; end < distinct.size() && same(distinct[end], distinct[begin]); ++end)
        if (names_[distinct[end]] < names_[first]) first = distinct[end];
      for (size_t i = begin; i < end; ++i)
        if (distinct[i] != first) collisions.push_back({distinct[i], first});
    }
  }

  const TextList& names_;
  std::vector<Keyed> keyed_;
};

}  // namespace

void check_repeated_names(const TextList& names, uint64_t text_offset, FindingList& findings) {
  const Groups groups(names);
  auto add = [&](Rule rule, uint32_t entry) {
    Diagnostic* finding = findings.add(rule);
    if (finding) {
      finding->subject = names[entry];
      finding->pointer = entry_pointer(names[entry]);
      finding->offset = text_offset + names.token_at(entry);
      finding->values = {{"tensor", std::string(names[entry])}};
    }
    return finding;
  };
  for (const auto& one : groups.repeated)
    if (Diagnostic* finding = add(Rule::ST022, one.second))
      finding->values.emplace_back("count", uint64_t{one.count});
  for (const auto& one : groups.collisions)
    if (Diagnostic* finding = add(Rule::ST067, one.entry))
      finding->values.emplace_back("other", std::string(names[one.other]));
}

}  // namespace tftf
