#include "tftf/base/regex.h"

#include <catch2/catch.hpp>

#include "data_file.h"
#include "tftf/base/json_value.h"

using namespace tftf;

namespace {

const JsonValue& table() {
  static const JsonDocument document =
      parse_json(tftf_test::read_data("/data/regex.json"), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  return document.root;
}

std::optional<std::pair<uint64_t, uint64_t>> span(const JsonValue& value) {
  if (value.is_null()) return std::nullopt;
  return std::pair(static_cast<uint64_t>(*value.elements[0].as_integer()),
                   static_cast<uint64_t>(*value.elements[1].as_integer()));
}

// The sentence of the error, or nothing.
std::string why(std::string_view pattern) {
  auto regex = Regex::compile(pattern);
  return regex ? "" : regex.error().message;
}

}  // namespace

TEST_CASE("patterns find what Python's re finds") {
  for (const JsonValue& c : table().find("cases")->elements) {
    const std::string pattern = c.find("pattern")->text;
    INFO("pattern " << pattern);
    auto regex = Regex::compile(pattern);
    if (c.find("error") != nullptr) {
      CHECK_FALSE(regex.ok());
      continue;
    }
    INFO((regex ? "" : regex.error().message));
    REQUIRE(regex.ok());
    auto brackets = regex->parse_template("<\\g<0>>");
    REQUIRE(brackets.ok());
    const JsonValue* texts = c.find("texts") != nullptr ? c.find("texts") : table().find("texts");
    const JsonValue* results = c.find("results");
    REQUIRE(texts->elements.size() == results->elements.size());
    for (size_t i = 0; i < texts->elements.size(); ++i) {
      const std::string& text = texts->elements[i].text;
      const JsonValue& want = results->elements[i];
      INFO("text " << text);
      auto found = regex->search(text);
      REQUIRE(found.ok());
      REQUIRE(found->has_value() == !want.is_null());
      if (want.is_null()) {
        CHECK(regex->substitute(text, *brackets).value() == text);
        CHECK_FALSE(regex->match(text).value());
        CHECK_FALSE(regex->fullmatch(text).value());
        continue;
      }
      const std::vector<JsonValue>& groups = want.elements[0].elements;
      REQUIRE((*found)->groups.size() == groups.size());
      for (size_t g = 0; g < groups.size(); ++g) CHECK((*found)->groups[g] == span(groups[g]));
      CHECK(regex->match(text).value() == want.elements[1].boolean);
      CHECK(regex->fullmatch(text).value() == want.elements[2].boolean);
      CHECK(regex->substitute(text, *brackets).value() == want.elements[3].text);
    }
  }
}

TEST_CASE("templates give what Python's re.sub gives") {
  for (const JsonValue& c : table().find("templates")->elements) {
    INFO(c.find("pattern")->text << " with " << c.find("template")->text);
    auto regex = Regex::compile(c.find("pattern")->text);
    REQUIRE(regex.ok());
    auto replacement = regex->parse_template(c.find("template")->text);
    if (c.find("error") != nullptr) {
      REQUIRE_FALSE(replacement.ok());
      CHECK(replacement.error().code == ErrorCode::kUsage);
      continue;
    }
    REQUIRE(replacement.ok());
    for (const JsonValue& result : c.find("results")->elements) {
      INFO(result.find("text")->text);
      CHECK(regex->substitute(result.find("text")->text, *replacement).value() ==
            result.find("replaced")->text);
    }
  }
}

TEST_CASE("group numbers in templates are plain digits") {
  auto regex = Regex::compile("(a)");
  REQUIRE(regex.ok());
  CHECK(regex->parse_template("\\g<01>").ok());
  for (const char* text : {"\\g< 1>", "\\g<+1>", "\\g<1_0>"}) CHECK_FALSE(regex->parse_template(text).ok());
}

TEST_CASE("what only Python or only PCRE2 takes is refused") {
  for (const JsonValue& pattern : table().find("refused")->elements) {
    INFO(pattern.text);
    auto regex = Regex::compile(pattern.text);
    REQUIRE_FALSE(regex.ok());
    CHECK(regex.error().code == ErrorCode::kUsage);
  }
  for (const char* pattern : {"\\Ka",    "\\h",     "\\R",     "\\X",     "\\pL",     "\\Qa\\E",   "(?|a|b)",
                              "(?<n>a)", "(?'n'a)", "(*FAIL)", "(?&n)",   "(?P>n)",   "(?^i)a",    "\\o{101}",
                              "\\x{41}", "\\g1",    "\\g{1}",  "(a)(?1)", "a{65536}", "(?i)a(?s)b"}) {
    INFO(pattern);
    CHECK(why(pattern).find("is not accepted") != std::string::npos);
  }
}

TEST_CASE("a refusal names the pattern and the place") {
  CHECK(why("ab(") ==
        "The pattern \"ab(\" is not accepted: missing ), unterminated subpattern (at character 2).");
  CHECK(why("é*+*") == "The pattern \"é*+*\" is not accepted: multiple repeat (at character 3).");
  CHECK(why("a\xFF").find("not valid UTF-8") != std::string::npos);
  CHECK(why(std::string(10'001, 'a')).find("longer than") != std::string::npos);
  CHECK(why(std::string(10'000, 'a')).empty());
  CHECK(why(std::string(200, '(') + std::string(200, ')')).find("nested too deeply") != std::string::npos);
}

TEST_CASE("patterns without end stop at the limit and are refused") {
  auto regex = Regex::compile("(a+)+$");
  REQUIRE(regex.ok());
  const std::string text = std::string(64, 'a') + "b";
  auto found = regex->search(text);
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().message.find("backtracks past the limit") != std::string::npos);
  CHECK_FALSE(regex->fullmatch(text).ok());
  CHECK_FALSE(regex->substitute(text, regex->parse_template("x").value()).ok());
  CHECK(regex->search("aaab").ok());  // and go on working
}

TEST_CASE("the time of a substitution grows with the text, not with its square") {
  // Four million matches in a text of eight million characters: hours, if each of them looked at the whole text.
  auto regex = Regex::compile("a");
  REQUIRE(regex.ok());
  std::string text, wanted;
  for (int i = 0; i < 4'000'000; ++i) {
    text +=
        "\u00e9"
        "a";
    wanted +=
        "\u00e9"
        "bc";
  }
  auto result = regex->substitute(text, regex->parse_template("bc").value());
  REQUIRE(result.ok());
  CHECK((*result == wanted));
  text.back() = '\xFF';
  CHECK_FALSE(regex->substitute(text, regex->parse_template("bc").value()).ok());
}

TEST_CASE("texts that are not UTF-8 are an error, not a match") {
  auto regex = Regex::compile("a");
  REQUIRE(regex.ok());
  CHECK_FALSE(regex->search("\xFF").ok());
}
