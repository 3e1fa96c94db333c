// Which tensors of a checkpoint are looked at, and how: as stored, or as their layouts mean them.
#pragma once

#include <string>
#include <vector>

#include "tftf/inspect/tensor_values.h"

namespace tftf {

struct ValueChoice {
  std::vector<TensorValues> values;  // in reading order
  // Parallel to `values`: an id of a layout that cannot be read, empty otherwise.
  std::vector<std::string_view> unreadable;
  std::vector<std::string> notes;
};

// All tensors of sound shards. `layouts`: null for stored values alone; else weights of layouts that can be read
// are given in their logical form and their scales are left out.
ValueChoice choose_values(const Checkpoint& checkpoint, const LayoutReport* layouts);

}  // namespace tftf
