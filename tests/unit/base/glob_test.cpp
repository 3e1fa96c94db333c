#include "tftf/base/glob.h"

#include <catch2/catch.hpp>
#include <set>

#include "data_file.h"
#include "tftf/base/json_value.h"

using namespace tftf;

TEST_CASE("globs match what Python's fnmatch matches") {
  const JsonDocument document = parse_json(tftf_test::read_data("/data/glob.json"), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  const auto texts = [](const JsonValue* list) {
    std::vector<std::string> result;
    if (list != nullptr) {
      for (const JsonValue& value : list->elements) result.push_back(value.text);
    }
    return result;
  };
  for (const JsonValue& c : document.root.find("cases")->elements) {
    const Glob glob(c.find("pattern")->text);
    std::vector<std::string> names = texts(document.root.find("names"));
    for (std::string& name : texts(c.find("extra"))) names.push_back(std::move(name));
    const std::vector<std::string> matching = texts(c.find("matches"));
    const std::set<std::string> want(matching.begin(), matching.end());
    for (const std::string& name : names) {
      INFO("pattern " << glob.pattern() << " name " << name);
      CHECK(glob.matches(name) == (want.count(name) > 0));
    }
  }
}

TEST_CASE("many stars take no exponential time") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  CHECK_FALSE(Glob(pattern + "b").matches(std::string(20'000, 'a')));
  CHECK(Glob(pattern).matches(std::string(20'000, 'a')));
}

TEST_CASE("a malformed byte is one character") {
  CHECK(
      Glob("a?b").matches("a\xFF"
                          "b"));
  CHECK_FALSE(
      Glob("a?b").matches("a\xFF\xFE"
                          "b"));
}

TEST_CASE("includes are any of, excludes none of") {
  const std::vector<Glob> none, a{Glob("a*")}, ab{Glob("a*"), Glob("b*")}, x{Glob("*x")};
  CHECK(glob_selects(none, none, "c"));
  CHECK(glob_selects(ab, none, "b"));
  CHECK_FALSE(glob_selects(a, none, "b"));
  CHECK_FALSE(glob_selects(ab, x, "bx"));
  CHECK(glob_selects(none, x, "b"));
  CHECK_FALSE(glob_selects(none, x, "x"));
}
