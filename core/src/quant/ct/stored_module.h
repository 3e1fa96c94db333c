// A module as it is stored, and the groups of the configuration that may mean it.
#pragma once

#include <string>
#include <vector>

#include "quant/ct/layout.h"
#include "tftf/quant/format.h"

namespace tftf::ct {

struct StoredModule {
  std::string name;
  const QuantMatch* match = nullptr;
  const ct::Layout* layout = nullptr;  // null: Marlin
  std::vector<const Group*> groups{};
  const Group* group() const { return groups.empty() ? nullptr : groups.front(); }
  const Args* args() const { return group() == nullptr || !group()->weights ? nullptr : &*group()->weights; }
};

// "4-bit int, groups of 128".
std::string stored_text(const StoredModule& module);
// Whether one of its groups says what is stored.
bool agrees(const StoredModule& module);
bool same_scheme(const StoredModule& a, const StoredModule& b);

}  // namespace tftf::ct
