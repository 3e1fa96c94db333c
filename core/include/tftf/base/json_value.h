// A small document for configuration files: order and duplicates kept, numbers as written, positions known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tftf/base/json_reader.h"

namespace tftf {

class JsonValue {
 public:
  struct Member;

  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  std::string text;                   // the string, or a number's literal
  std::vector<JsonValue> elements;    // of an array
  std::vector<Member> members;        // of an object, in file order, duplicates included
  std::vector<uint64_t> key_offsets;  // of an object: offset of each member's key
  uint64_t begin = 0;                 // byte range of the value in its text
  uint64_t end = 0;

  bool is_null() const { return kind == JsonKind::kNull; }
  bool is_object() const { return kind == JsonKind::kObject; }
  bool is_array() const { return kind == JsonKind::kArray; }
  bool is_string() const { return kind == JsonKind::kString; }
  bool is_number() const { return kind == JsonKind::kNumber; }
  bool is_true() const { return kind == JsonKind::kBoolean && boolean; }

  // The last member of that key (as Python's json keeps it), or nothing. A null value is returned as such.
  const JsonValue* find(std::string_view key) const;
  // find(), but a null value counts as absent (rule of config.json and adapter_config.json).
  const JsonValue* get(std::string_view key) const;
  // Member as string / number when it has that kind, else nothing.
  std::optional<std::string_view> string(std::string_view key) const;
  // A plain integer literal (no fraction, no exponent) that fits.
  std::optional<int64_t> as_integer() const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> as_double() const;
  std::optional<double> number(std::string_view key) const;
  // The value as compact text for messages (strings quoted), cut after about 80 characters.
  std::string brief() const;
};

// Not a std::pair: libstdc++'s cannot be used with the still incomplete JsonValue in every compiler.
struct JsonValue::Member {
  std::string first;
  JsonValue second;
};

// Values that a document may have. A value takes 130 to 160 bytes, 70 times its text when that is "1,": without a bound a
// small hostile file takes gigabytes. The largest configurations (21,000 labels, both ways) have 45,000.
inline constexpr uint64_t kMaxJsonValues = 300'000;

struct JsonDocument {
  JsonValue root;
  std::optional<JsonError> error;  // root is null then
};

// Parses a whole side file: no byte order mark, valid UTF-8, one value, nothing but white space after it, at most
// `max_values`. The
// error's detail says which of these failed.
JsonDocument parse_json(std::string_view text, JsonDialect dialect, uint64_t max_values = kMaxJsonValues);

}  // namespace tftf
