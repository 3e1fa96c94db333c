// JSON as a stream of events with byte positions.
//
// Why a reader of our own: a DOM keeps the last of duplicate keys silently; findings need the offset of every
// key, the literal text of every number ("1.0" is a fault in a shape, 2^64+1 must not lose a digit), and the
// first of several kinds of error in text order; and side files follow Python's json module, which accepts
// more than RFC 8259. Output is never made here: all JSON text is written through nlohmann-json
// (base/json_text.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tftf {

// kStrict: RFC 8259; an unpaired surrogate escape is an error.
// kPython: what Python's json.loads accepts besides: NaN, Infinity, -Infinity, unpaired surrogate escapes
// (delivered as their three-byte encoding, which is not valid UTF-8: print through base/escape.h only).
enum class JsonDialect { kStrict, kPython };

enum class JsonKind { kNull, kBoolean, kNumber, kString, kArray, kObject };
// "null", "boolean", "number", "string", "array", "object".
std::string_view json_kind_name(JsonKind kind);

struct JsonError {
  enum class Kind { kSyntax, kDepth, kLoneSurrogate };
  Kind kind = Kind::kSyntax;
  uint64_t offset = 0;  // in the text: the offending byte, the 128th bracket, or the backslash of the escape
  std::string detail;   // for kSyntax: a phrase such as "a comma is followed by no value"
};

// Receives the events of one value. `at` is the byte offset of the token's first byte. Views live until the
// call returns.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void on_null(uint64_t at) = 0;
  virtual void on_boolean(bool value, uint64_t at) = 0;
  // `literal` is the number as written (also NaN, Infinity, -Infinity in kPython).
  virtual void on_number(std::string_view literal, uint64_t at) = 0;
  // `text` is decoded UTF-8.
  virtual void on_string(std::string_view text, uint64_t at) = 0;
  virtual void on_key(std::string_view text, uint64_t at) = 0;
  virtual void on_start_object(uint64_t at) = 0;
  virtual void on_end_object(uint64_t at) = 0;
  virtual void on_start_array(uint64_t at) = 0;
  virtual void on_end_array(uint64_t at) = 0;
};

// Deepest nesting of objects and arrays that is read; one more is kDepth.
inline constexpr uint32_t kMaxJsonDepth = 127;

// Reads the one value that `text` begins with after JSON white space. `text` must be valid UTF-8
// (base/utf8.h); bytes of strings are passed through. On success returns nothing and sets `end` to the offset
// behind the value (white space or anything else may follow: the caller judges). On an error events stop at
// it.
std::optional<JsonError> read_json(std::string_view text, JsonDialect dialect, JsonHandler& handler,
                                   uint64_t& end);

// A number literal as an unsigned integer: digits only and at most 2^64-1, else nothing.
std::optional<uint64_t> json_unsigned(std::string_view literal);
// The exact value of a literal when it is a whole number in 0..2^64-1 however written ("1.0", "1e3", "-0"),
// else nothing.
std::optional<uint64_t> json_whole_number(std::string_view literal);
// A literal as a double, nearest; out of range gives infinity or 0. NaN and Infinity as in kPython.
double json_double(std::string_view literal);

}  // namespace tftf
