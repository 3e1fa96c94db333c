// Container rules about tensor names: cases that fire and close ones that do not.
#include <catch2/catch.hpp>

#include "header_cases.h"

using namespace tftf;
using namespace tftf::test;

TEST_CASE("names") {
  auto named = [](const std::string& name) { return with_entries(entry(name, "F32", "[]", "[0,4]"), 4); };
  check({
      {"plain", named("model.layers.0.x_proj-1"), {}},
      {"empty", named(""), {"ST060"}, {{"ST060", "", {}, {}, "/"}}},
      {"NUL", named("ab\\u0000c"), {"ST061"}, {{"ST061", std::string("ab\0c", 4), {{"prefix", "ab"}}}}},
      {"control", named("a\\u001f\\n"), {"ST062"}, {{"ST062", "a\x1F\n", {{"code", "001F"}}}}},
      {"DEL", named("a\x7F"), {"ST062"}, {{"ST062", "a\x7F", {{"code", "007F"}}}}},
      {"C1", named("a\xC2\x85"), {"ST062"}, {{"ST062", "a\xC2\x85", {{"code", "0085"}}}}},
      {"no C1 but a no-break space", named("a\xC2\xA0"), {}},
      {"NUL and control", named("\\u0000\\u0001"), {"ST061", "ST062"}},
      {"invisible", named("a\xE2\x80\x8B"), {"ST065"}, {{"ST065", "a\xE2\x80\x8B", {{"code", "200B"}}}}},
      {"soft hyphen", named("a\xC2\xAD"), {"ST065"}, {{"ST065", "a\xC2\xAD", {{"code", "00AD"}}}}},
      {"bidirectional", named("\\u2066x"), {"ST065"}},
      {"U+2065 is none of them", named("\\u2065x"), {}},
      {"byte order mark", named("\\ufeffx"), {"ST065"}},
      {"control and invisible", named("\\u0001\\ufeff"), {"ST062", "ST065"}},
      {"quotes", named("a\\\"b"), {"ST063"}},
      {"apostrophe", named("a'b"), {"ST063"}},
      {"backtick", named("a`b"), {"ST063"}},
      {"ampersand", named("a&b"), {"ST063"}},
      {"scheme", named("JavaScript:x"), {"ST063"}},
      {"data scheme", named("data:x"), {"ST063"}},
      {"a scheme further on", named("xdata:x"), {}},
      {"absolute path", named("/a"), {"ST064"}, {{"ST064", "/a", {}, {}, "/~1a"}}},
      {"backslash", named("a\\\\b"), {"ST064"}},
      {"drive", named("C:/a"), {"ST064"}},
      {"drive without slash", named("C:a"), {}},
      {"parent", named("a/../b"), {"ST064"}},
      {"parent alone", named(".."), {"ST064"}},
      {"parent at the end", named("a/.."), {"ST064"}},
      {"two dots in a component", named("a..b/c../..d"), {}},
      {"slash inside", named("a/b"), {}},
      {"4095 bytes", named(std::string(4095, 'n')), {}},
      {"4096 bytes",
       named(std::string(4096, 'n')),
       {"ST068"},
       {{"ST068", std::string(32, 'n'), {{"length", "4096"}, {"prefix", std::string(16, 'n')}}}}},
      {"characters, not bytes, in the subject",
       named(std::string(5000, 'n').replace(0, 2, "\xC3\xA4")),
       {"ST068"},
       {{"ST068", "\xC3\xA4" + std::string(31, 'n')}}},
      {"equal names",
       with_entries(entry("a", "F32", "[]", "[0,4]") + "," + entry("\\u0061", "F32", "[]", "[0,4]"), 4),
       {"ST022"},
       {{"ST022", "a", {{"count", "2"}}}}},
      {"names that differ in case",
       with_entries(entry("B.c", "F32", "[]", "[0,4]") + "," + entry("b.C", "F32", "[]", "[4,8]") + "," +
                        entry("b.c", "F32", "[]", "[8,12]"),
                    12),
       {"ST067", "ST067"},
       {{"ST067", "b.C", {{"other", "B.c"}}}, {"ST067", "b.c", {{"other", "B.c"}}}}},
      {"letters beyond ASCII are not folded",
       with_entries(entry("\xC3\x84", "F32", "[]", "[0,4]") + "," + entry("\xC3\xA4", "F32", "[]", "[4,8]"),
                    8),
       {}},
      {"@ and ` are no letters",
       with_entries(entry("a@[", "F32", "[]", "[0,4]") + "," + entry("a{", "F32", "[]", "[4,8]"), 8),
       {}},
      {"names are judged at every occurrence and when the entry is none",
       safetensors_file(padded("{" + kFormat + ",\"<\":1,\"<\":1}")),
       {"ST022", "ST028", "ST028", "ST063", "ST063"}},
  });
}
