#include "tftf/base/json_copy.h"

#include <string_view>
#include <unordered_map>

#include "tftf/base/json_member.h"
#include "tftf/base/json_reader.h"

namespace tftf {

OrderedJson to_ordered_json(const JsonValue& value) {
  switch (value.kind) {
    case JsonKind::kNull:
      return nullptr;
    case JsonKind::kBoolean:
      return value.boolean;
    case JsonKind::kString:
      return value.text;
    case JsonKind::kNumber:
      if (const auto integer = value.as_integer()) return json_integer(*integer);
      if (const auto whole = json_unsigned(value.text)) return json_integer(*whole);
      if (value.text.find_first_of(".eEnN") != std::string::npos) return json_float(json_double(value.text));
      return value.text;
    case JsonKind::kArray: {
      OrderedJson list = OrderedJson::array();
      for (const JsonValue& element : value.elements) list.push_back(to_ordered_json(element));
      return list;
    }
    case JsonKind::kObject: {
      // The last value of a key counts, where the key stands first.
      std::unordered_map<std::string_view, const JsonValue*> last;
      for (const JsonValue::Member& member : value.members) last[member.first] = &member.second;
      OrderedJson object = OrderedJson::object();
      for (const JsonValue::Member& member : value.members) {
        const auto found = last.find(member.first);
        if (found == last.end()) continue;
        add_member(object, member.first, to_ordered_json(*found->second));
        last.erase(found);
      }
      return object;
    }
  }
  return nullptr;
}

}  // namespace tftf
