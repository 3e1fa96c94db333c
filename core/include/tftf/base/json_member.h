// Members of objects whose keys come from files.
#pragma once

#include <string>
#include <utility>

#include "tftf/base/json_text.h"

namespace tftf {

// Adds a member to an object that has none of that key. operator[] looks through all keys before it, which for the keys of
// a hostile file takes hours.
inline void add_member(OrderedJson& object, std::string key, OrderedJson value) {
  object.get_ref<OrderedJson::object_t&>().emplace_back(std::move(key), std::move(value));
}

}  // namespace tftf
