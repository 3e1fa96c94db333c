// Step 5: `__metadata__`, of which the last occurrence counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "container/finding_list.h"
#include "container/text_list.h"
#include "tftf/base/json_reader.h"

namespace tftf {

class MetadataTable {
 public:
  // `text` is the header's text, `text_offset` its place in the file.
  MetadataTable(std::string_view text, uint64_t text_offset)
      : text_(text), text_offset_(text_offset), keys_(text), values_(text) {}

  // Events of the parse. An occurrence is begin(), then either one value that is no object, or begin_object,
  // keys with their values.
  void begin(uint64_t at);
  void not_object(JsonKind kind) { kind_ = kind; }
  void begin_object() { kind_ = JsonKind::kObject; }
  void key(std::string_view name, uint64_t at);
  // The value of the last key; `decoded` only of a string.
  void value(JsonKind kind, std::string_view decoded, uint64_t at);

  // After the parse: ST023, ST024, ST044 to ST050, ST069.
  void check(FindingList& findings);
  bool is_object() const { return times_ > 0 && kind_ == JsonKind::kObject; }
  // String values by key, in file order of the first occurrence, the last value of equal keys. Call after
  // check.
  Metadata take() { return std::move(metadata_); }
  // Keys whose value is no string, likewise.
  std::vector<std::string> take_others() { return std::move(others_); }

 private:
  void check_object(FindingList& findings);
  void check_entry(uint32_t number, bool tensor_like, FindingList& findings);
  void check_format(std::optional<uint32_t> format, FindingList& findings);
  // The value of an entry for messages: a string's text, a number as written, else its kind.
  std::string shown(uint32_t number) const;
  JsonKind kind_of(uint32_t number) const { return static_cast<JsonKind>(kinds_[number]); }

  std::string_view text_;
  uint64_t text_offset_;
  uint64_t times_ = 0;
  uint64_t at_ = 0;
  JsonKind kind_ = JsonKind::kNull;
  // Every occurrence of every key, and its value; of values that are no strings only the place.
  TextList keys_;
  TextList values_;
  std::vector<uint8_t> kinds_;  // JsonKind
  Metadata metadata_;
  std::vector<std::string> others_;
};

}  // namespace tftf
