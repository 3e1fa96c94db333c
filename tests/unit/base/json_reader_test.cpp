#include "tftf/base/json_reader.h"

#include <catch2/catch.hpp>

#include "tftf/base/json_value.h"

using namespace tftf;

TEST_CASE("strict JSON refuses what RFC 8259 refuses") {
  for (const char* text :
       {"{\"a\":1,}", "[1,]",        "[01]",       "[+1]",     "{'a':1}", "[NaN]",
        "[Infinity]", "[-Infinity]", "[1.]",       "[.5]",     "[1e]",    "\"\\x41\"",
        "\"a\nb\"",   "[1 2]",       "{\"a\" 1}",  "{\"a\":}", "",        "  ",
        "[",          "{",           "\"abc",      "nul",      "[tru]",   "{\"a\":1 \"b\":2}",
        "/**/1",      "-",           "\"\\u12g4\""}) {
    INFO(text);
    CHECK(parse_json(text, JsonDialect::kStrict).error.has_value());
  }
}

TEST_CASE("strict JSON accepts what RFC 8259 accepts") {
  for (const char* text : {"null", " [1,-0,1.5e+3,1E-2] ", "{\"\":{}}", "[[],{}]", "\"\\ud83d\\ude00\\n\\/\"",
                           "true", "0", "-1"}) {
    INFO(text);
    CHECK_FALSE(parse_json(text, JsonDialect::kStrict).error.has_value());
  }
}

TEST_CASE("Python's dialect adds three numbers and unpaired surrogates, nothing else") {
  CHECK_FALSE(parse_json("[NaN,Infinity,-Infinity]", JsonDialect::kPython).error);
  CHECK_FALSE(parse_json("\"\\ud800\"", JsonDialect::kPython).error);
  CHECK(parse_json("[-NaN]", JsonDialect::kPython).error);
  CHECK(parse_json("[1,]", JsonDialect::kPython).error);
  CHECK(parse_json("\xEF\xBB\xBF{}", JsonDialect::kPython).error);
  CHECK(parse_json("{} x", JsonDialect::kPython).error);
}

TEST_CASE("an unpaired surrogate is named with the offset of its backslash") {
  auto document = parse_json("{\"a\\ud800b\":1}", JsonDialect::kStrict);
  REQUIRE(document.error);
  CHECK(document.error->kind == JsonError::Kind::kLoneSurrogate);
  CHECK(document.error->offset == 3);
}

TEST_CASE("127 levels are read, the 128th bracket is the error") {
  CHECK_FALSE(parse_json(std::string(127, '[') + std::string(127, ']'), JsonDialect::kStrict).error);
  auto document = parse_json(std::string(5000000, '['), JsonDialect::kStrict);
  REQUIRE(document.error);
  CHECK(document.error->kind == JsonError::Kind::kDepth);
  CHECK(document.error->offset == 127);
}

TEST_CASE("whole numbers are exact however they are written") {
  CHECK(json_whole_number("18446744073709551615") == UINT64_MAX);
  CHECK_FALSE(json_whole_number("18446744073709551616"));
  CHECK(json_whole_number("1.8446744073709551615e19") == UINT64_MAX);
  CHECK(json_whole_number("-0") == 0);
  CHECK(json_whole_number("0e999999999999") == 0);
  CHECK(json_whole_number("120e-1") == 12);
  CHECK_FALSE(json_whole_number("1e-1"));
  CHECK_FALSE(json_whole_number("-1"));
  CHECK_FALSE(json_whole_number("1e400"));
  CHECK(json_whole_number("1.0") == 1);
  CHECK_FALSE(json_unsigned("1.0"));
  CHECK_FALSE(json_unsigned("-0"));
}

TEST_CASE("values know their byte range") {
  const std::string text = R"( {"a": "x\"y", "b": [1, 2], "a": null} )";
  auto document = parse_json(text, JsonDialect::kStrict);
  REQUIRE_FALSE(document.error);
  REQUIRE(document.root.members.size() == 3);
  auto cut = [&](const JsonValue& v) { return text.substr(v.begin, v.end - v.begin); };
  CHECK(cut(document.root.members[0].second) == R"("x\"y")");
  CHECK(cut(document.root.members[1].second) == "[1, 2]");
  CHECK(document.root.find("a")->is_null());
  CHECK(document.root.get("a") == nullptr);
}

TEST_CASE("a document has a bound of values, errors behind it are still found first") {
  const auto array = [](size_t count, const std::string& end) {
    std::string text = "[1";
    for (size_t i = 1; i < count; ++i) text += i % 2 == 0 ? ",{\"a\":[]}" : ",1";
    return text + end;
  };
  CHECK_FALSE(parse_json("[1,2,3]", JsonDialect::kStrict, 4).error);
  const JsonDocument over = parse_json("[1,2,3]", JsonDialect::kStrict, 3);
  REQUIRE(over.error);
  CHECK(over.root.is_null());
  CHECK(over.error->offset == 5);
  CHECK(over.error->detail == "it has more than 3 values");
  CHECK_FALSE(parse_json(array(10'000, "]"), JsonDialect::kStrict).error);
  CHECK(parse_json(array(400'000, "]"), JsonDialect::kStrict).error);
  const JsonDocument broken = parse_json(array(400'000, ""), JsonDialect::kStrict);
  REQUIRE(broken.error);
  CHECK(broken.error->detail != over.error->detail);
}
