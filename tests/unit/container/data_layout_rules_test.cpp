// Container rules about where tensors lie: cases that fire and close ones that do not.
#include <array>
#include <catch2/catch.hpp>

#include "header_cases.h"

using namespace tftf;
using namespace tftf::test;

TEST_CASE("layout: holes, overlaps, ends") {
  auto two = [](const std::string& a, const std::string& b, uint64_t bytes) {
    return with_entries(entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b), bytes);
  };
  const uint64_t data = 8 + padded("{" + kFormat + "," + entry("a", "U8", "[4]", "[0,4]") + "," +
                                   entry("b", "U8", "[4]", "[4,8]") + "}")
                                .size();
  check({
      {"tiles", two("[0,4]", "[4,8]", 8), {}},
      {"header order is free but hinted",
       two("[4,8]", "[0,4]", 8),
       {"ST053", "ST054"},
       {{"ST054", "b"}, {"ST053", "a"}}},
      {"hole",
       two("[0,4]", "[6,10]", 10),
       {"ST042"},
       {{"ST042", "b", {{"begin", "4"}, {"end", "6"}}, {}, "/b"}}},
      {"hole at the start",
       two("[2,6]", "[6,10]", 10),
       {"ST042"},
       {{"ST042", "a", {{"begin", "0"}, {"end", "2"}}}}},
      {"overlap",
       two("[0,4]", "[2,6]", 6),
       {"ST043"},
       {{"ST043", "b", {{"begin", "2"}, {"end", "6"}, {"other", "a"}, {"obegin", "0"}, {"oend", "4"}}}}},
      {"same range", two("[0,4]", "[0,4]", 4), {"ST043"}, {{"ST043", "b", {{"other", "a"}}}}},
      {"an overlap between occurrences of one name is not named",
       with_entries(entry("a", "U8", "[4]", "[0,4]") + "," + entry("a", "U8", "[4]", "[0,4]"), 4),
       {"ST022"}},
      {"the furthest end counts",
       with_entries(entry("big", "U8", "[9]", "[0,9]") + "," + entry("in", "U8", "[2]", "[2,4]") + "," +
                        entry("later", "U8", "[2]", "[5,7]"),
                    9),
       {"ST043", "ST043"},
       {{"ST043", "in", {{"other", "big"}}}, {"ST043", "later", {{"other", "big"}}}}},
      {"an empty tensor inside another",
       with_entries(entry("a", "U8", "[4]", "[0,4]") + "," + entry("e", "U8", "[0]", "[2,2]"), 4),
       {"ST043", "ST056"},
       {{"ST043", "e", {{"other", "a"}}}}},
      {"empty tensors on boundaries",
       with_entries(entry("e0", "U8", "[0]", "[0,0]") + "," + entry("f", "U8", "[4]", "[0,4]") + "," +
                        entry("g1", "U8", "[0]", "[4,4]"),
                    4),
       {"ST056", "ST056"}},
      {"an empty tensor beyond the end",
       with_entries(entry("a", "U8", "[4]", "[0,4]") + "," + entry("e", "U8", "[0]", "[6,6]"), 4),
       {"ST039", "ST042", "ST056"}},
      {"truncated",
       two("[0,4]", "[4,8]", 5),
       {"ST040"},
       {{"ST040",
         {},
         {{"missing", "3"}, {"expected", "8"}, {"affected", "1"}, {"total", "2"}, {"tensor", "b"}},
         data + 5}}},
      {"truncated before all",
       two("[0,4]", "[4,8]", 0),
       {"ST040"},
       {{"ST040", {}, {{"affected", "2"}, {"tensor", "a"}}}}},
      {"past the end with a hole",
       two("[0,4]", "[6,10]", 8),
       {"ST039", "ST042"},
       {{"ST039", "b", {{"end", "10"}, {"available", "8"}}}}},
      {"past the end with a wrong size",
       with_entries(entry("a", "U8", "[4]", "[0,6]"), 4),
       {"ST037", "ST039"}},
      {"past the end with an unknown size",
       with_entries(entry("a", "U9", "[4]", "[0,4]"), 2),
       {"ST030", "ST039"}},
      {"the largest offsets",
       with_entries(entry("a", "U8", "[4]", "[18446744073709551611,18446744073709551615]"), 0),
       {"ST039", "ST042"}},
      {"trailing bytes",
       two("[0,4]", "[4,8]", 11),
       {"ST041"},
       {{"ST041", {}, {{"count", "3"}, {"offset", std::to_string(data + 8)}}, data + 8}}},
      {"no tensors but data", safetensors_file(padded("{" + kFormat + "}"), 5), {"ST041", "ST055"}},
      {"trailing bytes behind a hole", two("[0,4]", "[6,10]", 12), {"ST041", "ST042"}},
      {"no layout while an entry has no offsets",
       with_entries(entry("a", "U8", "[4]", "[2,6]") + "," + entry("b", "U8", "[4]", "[0]"), 20),
       {"ST034"}},
      {"no layout while an entry is reversed", two("[3,7]", "[5,1]", 20), {"ST038"}},
      {"no layout while an entry is none",
       safetensors_file(padded("{" + kFormat + ",\"a\":1}"), 20),
       {"ST028"}},
  });
}

TEST_CASE("trailing bytes and polyglots are named by what they begin with") {
  const std::string sound = with_entries(entry("a", "U8", "[4]", "[0,4]"), 4);
  const std::string end_record = std::string("PK\x05\x06", 4) + std::string(16, '\0');
  auto sniff = [](const std::string& file) {
    const HeaderScan scan = scan_file("m", file);
    for (const Diagnostic& finding : scan.findings)
      for (const auto& [key, value] : finding.values)
        if (key == "sniff") return value_text(value);
    return std::string("(none)");
  };
  CHECK(sniff(sound) == "(none)");
  CHECK(sniff(sound + "xxxx") == "");
  CHECK(sniff(sound + "PK\x03\x04") == " (they begin like a ZIP archive)");
  CHECK(sniff(sound + "GGUF" + std::string(100'000, 'x')) == " (they begin like a GGUF file)");
  HeaderOptions no_tail;
  no_tail.tail = false;
  CHECK(scan_file("m", sound + "GGUF", no_tail).findings.size() == 1);

  auto holding = [](const std::string& data) {
    const std::string n = std::to_string(data.size());
    std::string file = with_entries(entry("a", "U8", "[" + n + "]", "[0," + n + "]"), 0);
    return file + data;
  };
  const uint64_t data_at = holding(std::string(22, 'x')).size() - 22;
  check({
      {"ZIP without comment",
       holding(end_record + std::string(2, '\0')),
       {"ST070"},
       {{"ST070", {}, {{"format", "ZIP"}, {"offset", std::to_string(data_at)}}, data_at}}},
      {"ZIP with a comment to the end", holding(end_record + std::string("\x03\0abc", 5)), {"ST070"}},
      {"a comment that ends elsewhere", holding(end_record + std::string("\x04\0abc", 5)), {}},
      {"a record without room for its length", holding(std::string(2, '\0') + end_record), {}},
      {"the longest comment, far from the head",
       holding(std::string(100'000, 'x') + end_record + "\xFF\xFF" + std::string(65'535, 'c')),
       {"ST070"}},
      {"PDF", holding("%PDF-1.4" + std::string(14, 'x')), {"ST070"}, {{"ST070", {}, {{"format", "PDF"}}}}},
      {"PDF behind the first 1,024 bytes", holding(std::string(1100, 'x') + "%PDF-"), {}},
      {"an unsound file is no polyglot", holding(end_record + std::string(2, '\0')) + "x", {"ST041"}},
  });
  std::string tar = holding(std::string(400, 'x'));
  tar.replace(257, 5, "ustar");
  check({{"tar", tar, {"ST070"}, {{"ST070", {}, {{"format", "tar"}, {"offset", "257"}}}}}});
  CHECK(scan_file("m", holding(std::string(100'000, 'x') + end_record + std::string(2, '\0')), no_tail)
            .findings.empty());
}

TEST_CASE("alignment") {
  auto unpadded = [](const std::string& entries, uint64_t bytes, uint64_t remainder) {
    std::string text = "{" + kFormat + "," + entries + "}";
    while (text.size() % 8 != remainder) text += ' ';
    return safetensors_file(text, bytes);
  };
  check({
      {"data at a multiple of 8", unpadded(kScalar, 4, 0), {}},
      {"data 4 bytes on: F32 is still aligned", unpadded(kScalar, 4, 4), {"ST051"}},
      {"data 2 bytes on",
       unpadded(kScalar, 4, 2),
       {"ST051", "ST052"},
       {{"ST052", "a", {{"dtype", "F32"}, {"align", "4"}}}}},
      {"data 1 byte on, bytes", unpadded(entry("a", "U8", "[4]", "[0,4]"), 4, 1), {"ST051"}},
      {"complex numbers need 4", unpadded(entry("a", "C64", "[1]", "[0,8]"), 8, 4), {"ST031", "ST051"}},
      {"doubles need 8", unpadded(entry("a", "F64", "[1]", "[0,8]"), 8, 4), {"ST051", "ST052", "ST091"}},
      {"an odd tensor before F32",
       with_entries(entry("a", "U8", "[3]", "[0,3]") + "," + entry("b", "F32", "[1]", "[3,7]"), 7),
       {"ST052", "ST053"},
       {{"ST052", "b"}, {"ST053", "b"}}},
      {"an empty tensor needs nothing",
       with_entries(entry("a", "U8", "[3]", "[0,3]") + "," + entry("b", "F32", "[0]", "[3,3]"), 3),
       {"ST053", "ST056"}},
      {"alignment is judged in broken tables too",
       unpadded(entry("a", "F32", "[2]", "[0,4]") + ",\"b\":1", 4, 2),
       {"ST028", "ST037", "ST051", "ST052"}},
  });
}

TEST_CASE("reference order: the first tensor of that order that lies elsewhere") {
  auto order = [](std::vector<std::array<std::string, 3>> tensors) {  // name, dtype, number of elements
    std::string entries;
    uint64_t at = 0;
    for (const auto& [name, dtype, count] : tensors) {
      const uint64_t bytes = *byte_count(std::stoull(count), *find_dtype(dtype));
      if (!entries.empty()) entries += ",";
      entries += entry(name, dtype, "[" + count + "]",
                       "[" + std::to_string(at) + "," + std::to_string(at + bytes) + "]");
      at += bytes;
    }
    const HeaderScan scan = scan_file("m", with_entries(entries, at));
    for (const Diagnostic& finding : scan.findings)
      if (finding.rule == Rule::ST053) return *finding.subject;
    return std::string("(in order)");
  };
  CHECK(
      order(
          {{"z", "I64", "1"}, {"a", "F32", "1"}, {"b", "F32", "1"}, {"x", "U8", "1"}, {"q", "BOOL", "1"}}) ==
      "(in order)");
  CHECK(order({{"b", "F32", "1"}, {"a", "F32", "1"}}) == "a");
  CHECK(order({{"a", "F32", "1"}, {"c", "F32", "1"}, {"b", "F32", "1"}, {"d", "F32", "1"}}) == "b");
  CHECK(order({{"a", "U8", "8"}, {"b", "I64", "1"}}) == "b");
  // Empty tensors leave the offsets as they are when they change places with each other …
  CHECK(order({{"b", "F32", "0"}, {"a", "F32", "0"}, {"c", "F32", "1"}}) == "(in order)");
  CHECK(order({{"a", "F32", "1"}, {"c", "F32", "0"}, {"b", "F32", "0"}}) == "(in order)");
  // … but not with others.
  CHECK(order({{"b", "F32", "0"}, {"a", "F32", "1"}}) == "b");
  CHECK(order({{"c", "F32", "0"}, {"b", "F32", "0"}, {"a", "F32", "1"}, {"d", "F32", "1"}}) == "b");
}
