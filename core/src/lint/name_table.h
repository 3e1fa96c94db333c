// Names as dense numbers: one hash table for tensor names, shard names and paths.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tftf {

// Numbers names 0, 1, 2, … in the order they are first seen. Keeps views: the texts must outlive it.
class NameTable {
 public:
  uint32_t insert(std::string_view name) {
    if ((names_.size() + 1) * 2 > slots_.size()) grow();
    const uint32_t hash = hash_of(name);
    uint32_t& slot = slots_[probe(name, hash)];
    if (slot == 0) {
      names_.push_back(name);
      hashes_.push_back(hash);
      slot = static_cast<uint32_t>(names_.size());
    }
    return slot - 1;
  }
  std::optional<uint32_t> find(std::string_view name) const {
    if (slots_.empty()) return std::nullopt;
    const uint32_t slot = slots_[probe(name, hash_of(name))];
    if (slot == 0) return std::nullopt;
    return slot - 1;
  }
  std::string_view name(uint32_t number) const { return names_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(names_.size()); }

 private:
  static uint32_t hash_of(std::string_view name) {
    const auto hash = static_cast<uint64_t>(std::hash<std::string_view>()(name));
    return static_cast<uint32_t>(hash ^ (hash >> 32));
  }
  // The slot that holds the name, or the free one where it belongs.
  size_t probe(std::string_view name, uint32_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at] != 0) {
      const uint32_t number = slots_[at] - 1;
      if (hashes_[number] == hash && names_[number] == name) break;
      at = (at + 1) & mask;
    }
    return at;
  }
  void grow() {
    slots_.assign(slots_.empty() ? 16 : slots_.size() * 2, 0);
    const size_t mask = slots_.size() - 1;
    for (uint32_t number = 0; number < names_.size(); ++number) {
      size_t at = hashes_[number] & mask;
      while (slots_[at] != 0) at = (at + 1) & mask;
      slots_[at] = number + 1;
    }
  }

  std::vector<uint32_t> slots_;  // number + 1, 0: free; a power of two of them
  std::vector<std::string_view> names_;
  std::vector<uint32_t> hashes_;
};

}  // namespace tftf
