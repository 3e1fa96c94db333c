#include <catch2/catch.hpp>

#include "tftf/base/escape.h"

namespace tftf {

TEST_CASE("text is cut by characters, not bytes, and says how long it was") {
  CHECK(escape_text_cut("abc", 3) == "abc");
  CHECK(escape_text_cut("abcd", 3) == "abc… (4 characters)");
  CHECK(escape_text_cut("\u00e9\u00e9\u00e9", 3) == "\u00e9\u00e9\u00e9");
  CHECK(escape_text_cut("\u00e9\u00e9\u00e9\u00e9", 3) == "\u00e9\u00e9\u00e9… (4 characters)");
  CHECK(escape_text_cut("\n\n", 1) == "\\u{000A}… (2 characters)");
  CHECK(escape_text_cut("", 0).empty());
  CHECK(escape_text_cut(std::string(1 << 20, '9'), 500).size() < 600);
}

}  // namespace tftf
