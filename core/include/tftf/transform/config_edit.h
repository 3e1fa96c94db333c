// Changes to config.json and its like as text: members are cut out or replaced, every other byte stays (spec
// cli 1, tftf 1.5).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/json_copy.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"

namespace tftf {

// What was done to one member, for the account.
struct ConfigChange {
  std::string file;
  std::string pointer;  // JSON Pointer
  OrderedJson before;
  OrderedJson after;  // null: cut out
};

// A document that is edited. Paths are lists of keys from the root; a path through something that is no
// object, or a member that is not there, changes nothing.
class ConfigText {
 public:
  // `text` must be a JSON document (Python's dialect).
  ConfigText(std::string file, std::string text);

  const std::string& text() const { return text_; }
  const JsonValue& root() const { return document_.root; }
  const std::vector<ConfigChange>& changes() const { return changes_; }

  // Cuts a member (all of them where a key is repeated) from its key to the next member's key; the last one
  // from the end of its predecessor to its own end; the only one from its key to its own end.
  void cut(const std::vector<std::string_view>& path);
  // Gives a member the value `json` (a JSON text), in place of what it has or as the object's last member.
  void set(const std::vector<std::string_view>& path, const std::string& json);
  // Replaces a member's value when it is a string other than `value`.
  void replace_string(const std::vector<std::string_view>& path, std::string_view value);

 private:
  const JsonValue* object_at(const std::vector<std::string_view>& path) const;
  void splice(uint64_t begin, uint64_t end, std::string_view with);
  void record(const std::vector<std::string_view>& path, OrderedJson before, OrderedJson after);

  std::string file_;
  std::string text_;
  JsonDocument document_;
  std::vector<ConfigChange> changes_;
};

}  // namespace tftf
