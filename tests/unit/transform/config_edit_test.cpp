#include "tftf/transform/config_edit.h"

#include <catch2/catch.hpp>

using namespace tftf;

namespace {

std::string cut(const std::string& text, const std::vector<std::string_view>& path) {
  ConfigText config("config.json", text);
  config.cut(path);
  return config.text();
}

}  // namespace

TEST_CASE("a member is cut up to the next key, the last one from its predecessor's end") {
  CHECK(cut(R"({"a": 1, "b": 2, "c": 3})", {"a"}) == R"({"b": 2, "c": 3})");
  CHECK(cut(R"({"a": 1, "b": 2, "c": 3})", {"b"}) == R"({"a": 1, "c": 3})");
  CHECK(cut(R"({"a": 1, "b": 2, "c": 3})", {"c"}) == R"({"a": 1, "b": 2})");
  CHECK(cut(R"({"a": 1})", {"a"}) == "{}");
  CHECK(cut(R"({ "a" : 1 })", {"a"}) == "{  }");
  CHECK(cut("{\n  \"a\": 1,\n  \"b\": {\"x\": [1, 2]}\n}\n", {"b"}) == "{\n  \"a\": 1\n}\n");
  CHECK(cut("{\n  \"b\": {\"x\": [1, 2]},\n  \"a\": 1\n}\n", {"b"}) == "{\n  \"a\": 1\n}\n");
  CHECK(cut("{\t\"a\" : 1 ,\r\n\"b\":2 , \"c\":3}", {"b"}) == "{\t\"a\" : 1 ,\r\n\"c\":3}");
}

TEST_CASE("nested members are cut in place, absent ones change nothing") {
  const std::string text = R"({"text_config": {"q": {"m": "fp8"}, "z": 1.50e1}, "n": NaN})";
  CHECK(cut(text, {"text_config", "q"}) == R"({"text_config": {"z": 1.50e1}, "n": NaN})");
  CHECK(cut(text, {"q"}) == text);
  CHECK(cut(text, {"text_config", "x"}) == text);
  CHECK(cut(text, {"n", "x"}) == text);
  CHECK(cut("[1]", {"a"}) == "[1]");
}

TEST_CASE("a repeated key goes every time, and every removal is told") {
  ConfigText config("config.json", R"({"q": 1, "a": 0, "q": {"b": [null, true, "x", 2.5]}})");
  config.cut({"q"});
  CHECK(config.text() == R"({"a": 0})");
  REQUIRE(config.changes().size() == 2);
  CHECK(config.changes()[0].file == "config.json");
  CHECK(config.changes()[0].pointer == "/q");
  CHECK(config.changes()[0].before.dump() == R"({"b":[null,true,"x",2.5]})");
  CHECK(config.changes()[0].after.is_null());
  CHECK(config.changes()[1].before.dump() == "1");
}

TEST_CASE("strings are replaced where they are strings and differ") {
  ConfigText config("c.json",
                    R"({"dtype": "float32", "torch_dtype": null, "t/x": {"dtype" :"bf"}, "é": "\u00e9"})");
  config.replace_string({"dtype"}, "bfloat16");
  config.replace_string({"torch_dtype"}, "bfloat16");
  config.replace_string({"absent"}, "bfloat16");
  config.replace_string({"t/x", "dtype"}, "bfloat16");
  config.replace_string({"é"}, "é");
  CHECK(config.text() ==
        R"({"dtype": "bfloat16", "torch_dtype": null, "t/x": {"dtype" :"bfloat16"}, "é": "\u00e9"})");
  REQUIRE(config.changes().size() == 2);
  CHECK(config.changes()[1].pointer == "/t~1x/dtype");
  CHECK(config.changes()[1].before == "bf");
  CHECK(config.changes()[1].after == "bfloat16");
}

TEST_CASE("numbers keep their value as output JSON") {
  const JsonDocument document =
      parse_json("[1, -1, 18446744073709551615, 1e3, 1.5, NaN, 123456789012345678901]", JsonDialect::kPython);
  CHECK(to_ordered_json(document.root).dump() ==
        R"([1,-1,"18446744073709551615",1000.0,1.5,"NaN","123456789012345678901"])");
}

TEST_CASE("of a repeated key the last value becomes output JSON, where the key stood first") {
  const JsonDocument document =
      parse_json(R"({"a": 1, "b": {"c": 2, "c": 3}, "a": 4})", JsonDialect::kPython);
  CHECK(to_ordered_json(document.root).dump() == R"({"a":4,"b":{"c":3}})");
}
