// Where a tensor name stands in a family table.
#pragma once

#include <cstdint>
#include <string_view>

#include "lint/config/family_table.h"

namespace tftf {

struct FamilyPlace {
  enum class Kind : uint8_t {
    kUnknown,  // outside the table
    kTop,
    kLayer,
    kExpert,
    kInLayer  // behind a stack's prefix and a layer number, but no name of the table
  };
  Kind kind = Kind::kUnknown;
  bool exact = true;      // false: a companion X.… of the table's X.weight (quantised models)
  bool prefixed = false;  // the optional prefix was there
  uint32_t entry = 0;     // in the stack's names or experts, or in the top names
  uint32_t stack = 0;
  uint32_t layer = 0;
  uint32_t expert = 0;
  bool in_table() const { return kind != Kind::kUnknown && kind != Kind::kInLayer; }
  bool in_layers() const { return kind == Kind::kLayer || kind == Kind::kExpert || kind == Kind::kInLayer; }
};

// Numbers of layers and experts have no leading zero and at most nine digits. `companions`: names X.… count
// for X.weight.
FamilyPlace find_place(const Family& family, std::string_view name, bool companions);

// Buffers that loaders ignore (rule CF033).
bool is_legacy_buffer(std::string_view name);

}  // namespace tftf
