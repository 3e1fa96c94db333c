#include "tftf/base/json_text.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tftf/base/json_value.h"
#include "tftf/base/utf8.h"

namespace tftf {

TEST_CASE("numbers that JavaScript cannot hold are text") {
  CHECK(json_integer(uint64_t{9007199254740991}).dump() == "9007199254740991");
  CHECK(json_integer(uint64_t{9007199254740992}).dump() == "\"9007199254740992\"");
  CHECK(json_integer(UINT64_MAX).dump() == "\"18446744073709551615\"");
  CHECK(json_integer(int64_t{-9007199254740991}).dump() == "-9007199254740991");
  CHECK(json_integer(int64_t{-9007199254740992}).dump() == "\"-9007199254740992\"");
  CHECK(json_float(std::numeric_limits<double>::quiet_NaN()).dump() == "\"NaN\"");
  CHECK(json_float(-std::numeric_limits<double>::infinity()).dump() == "\"-Infinity\"");
  CHECK(json_float(0.1).dump() == "0.1");
}

TEST_CASE("documents end with a line feed and keep UTF-8 raw") {
  CHECK(json_text({{"b", "\u00e9\u202f"}, {"a", {1, 2}}}) ==
        "{\n  \"b\": \"\u00e9\u202f\",\n  \"a\": [\n    1,\n    2\n  ]\n}\n");
  CHECK(json_text("a\xFFz") == "\"a\uFFFDz\"\n");
}

TEST_CASE("what changes how its surroundings are shown is escaped, and nothing else") {
  const auto escaped = [](uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  };
  for (uint32_t c = 1; c < 0x10FFFF; c += c < 0x2100 ? 1 : 0x101) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string raw;
    append_utf8(raw, c);
    const std::string text = json_text({{"k" + raw, raw + "z" + raw}});
    if (c != '\n' && (text.find(raw) == std::string::npos) != escaped(c)) FAIL(c);
    if (OrderedJson::parse(text) != OrderedJson({{"k" + raw, raw + "z" + raw}})) FAIL(c);
  }
  CHECK(json_text("\u0085\u009b\u202e") == "\"\\u0085\\u009b\\u202e\"\n");
  // Beside an unpaired surrogate, too.
  CHECK(json_text("\u202e\xED\xA0\x80") == "\"\\u202e\\ud800\"\n");
}

TEST_CASE("unpaired surrogates keep their value, wherever they stand") {
  const std::string high = "\xED\xA0\x80";  // U+D800
  const std::string low = "\xED\xBF\xBF";   // U+DFFF
  CHECK(json_text("a" + high + "b" + low) == "\"a\\ud800b\\udfff\"\n");
  CHECK(json_text({{high, OrderedJson::array({low})}}) == "{\n  \"\\ud800\": [\n    \"\\udfff\"\n  ]\n}\n");
  // The character that would stand in for the escape is itself in the document; so is a last valid character before
  // the surrogates, and a cut one.
  CHECK(json_text("\U000F0000" + high + "\uD7FF" + "\xED\xA0") ==
        "\"\U000F0000\\ud800\uD7FF\uFFFD\uFFFD\"\n");
  // What comes from a file goes back to the same value.
  for (uint32_t unit = 0xD800; unit <= 0xDFFF; ++unit) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", unit);
    const std::string text = "\"x" + std::string(escape) + "y\"";
    const JsonDocument document = parse_json(text, JsonDialect::kPython);
    REQUIRE_FALSE(document.error.has_value());
    if (json_text(document.root.text) != text + "\n") FAIL(text);
  }
}

}  // namespace tftf
