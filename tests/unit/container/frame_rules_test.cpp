// Container rules about what the file is, its length and its JSON: cases that fire and close ones that do not.
#include <catch2/catch.hpp>

#include "header_cases.h"

using namespace tftf;
using namespace tftf::test;

TEST_CASE("identity: what is no safetensors file at all") {
  const std::string over_cap = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
  check({
      {"empty", "", {"ST001"}},
      {"one byte", "x", {"ST002"}, {{"ST002", {}, {{"size", "1"}}}}},
      {"seven bytes", "{\"a\":1}", {"ST002"}, {{"ST002", {}, {{"size", "7"}}}}},
      {"LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:abcd\nsize 77\n",
       {"ST003"},
       {{"ST003", {}, {{"size", "67"}, {"lfs_size", "77"}, {"oid", "abcd"}}}}},
      {"LFS pointer without its lines",
       "version https://git-lfs.github.com/spec/v1\r\nsize many\r\n",
       {"ST003"},
       {{"ST003", {}, {{"lfs_size", "(missing)"}, {"oid", "(missing)"}}}}},
      {"HTML",
       "  <!DocType html>\xC3\xA4 and more",
       {"ST004"},
       {{"ST004", {}, {{"head", "  <!DocType html"}}}}},
      {"JSON without length", "{\"error\":\"\xC3\xA4\"}", {"ST004"}},
      {"JSON array without length", "\n[\"\xC3\xA4\", 1, 2, 3]", {"ST004"}},
      {"plain text", "Repository not found.", {"ST004"}},
      {"text, then bytes behind the first 64", std::string(64, 'x') + "\xFF\xFE", {"ST004"}},
      {"bytes within the first 64", std::string(63, 'x') + "\xFF", {"ST010"}},
      {"ZIP", "PK\x03\x04" + over_cap, {"ST005"}, {{"ST005", {}, {{"size", "12"}}}}},
      {"pickle", "\x80\x02" + over_cap, {"ST006"}, {{"ST006", {}, {{"protocol", "2"}}}}},
      {"pickle of protocol 5", "\x80\x05" + over_cap, {"ST006"}},
      {"no such protocol", "\x80\x06" + over_cap, {"ST010"}},
      {"GGUF", "GGUF" + over_cap, {"ST007"}, {{"ST007", {}, {{"format", "GGUF"}}}}},
      {"HDF5", "\x89HDF\r\n\x1A\n" + over_cap, {"ST007"}, {{"ST007", {}, {{"format", "HDF5"}}}}},
      {"NumPy", "\x93NUMPY\x01" + over_cap, {"ST007"}},
      {"ELF",
       "\x7F"
       "ELF" +
           over_cap,
       {"ST007"}},
      {"PDF", "%PDF-1.7" + over_cap, {"ST007"}},
      {"7z", "7z\xBC\xAF\x27\x1C" + over_cap, {"ST007"}},
      {"RAR", "Rar!" + over_cap, {"ST007"}},
      {"Zstandard", "\x28\xB5\x2F\xFD" + over_cap, {"ST007"}},
      {"XZ",
       std::string("\xFD"
                   "7zXZ\0",
                   6) +
           over_cap,
       {"ST007"}},
      {"PNG", "\x89PNG" + over_cap, {"ST007"}},
      {"PE", "MZ" + over_cap, {"ST007"}, {{"ST007", {}, {{"format", "PE"}}}}},
      {"gzip, whose length passes the cap", std::string("\x1F\x8B\x08\0\0\0\0\0\xFF\xFF", 10), {"ST007"}},
      {"gzip whose header fits the file",
       std::string("\x1F\x8B\x08\0\0\0\0\0", 8) + std::string(0x088B1F, '\xFF'),
       {"ST007"}},
      {"a file whose length begins like PE", little_endian('M' | 'Z' << 8) + "{}", {"ST011"}},
  });
}

TEST_CASE("a sound file may begin with the bytes of another format") {
  // Header lengths 0x8002-like in the first bytes: a pickle's mark, PE's, and a ZIP's would need 4 GB.
  for (const uint64_t length : {uint64_t{0x0280}, uint64_t{0x0580}, uint64_t{'M' | 'Z' << 8}}) {
    std::string text = "{" + kFormat + "," + kScalar + "}";
    text.append(length - text.size(), ' ');
    const HeaderScan scan = scan_file("m", safetensors_file(text, 4));
    CHECK(scan.sound);
    CHECK(rules_of(scan) ==
          (length % 8 == 0 ? std::vector<std::string>{} : std::vector<std::string>{"ST051", "ST052"}));
  }
}

TEST_CASE("frame: the header's length and text") {
  const std::string header = padded("{" + kFormat + "," + kScalar + "}");
  const uint64_t n = header.size();
  check({
      {"sound", safetensors_file(header, 4), {}},
      {"over the cap",
       little_endian(100'000'001) + "\xFF",
       {"ST010"},
       {{"ST010", {}, {{"n", "100000001"}, {"limit", "100000000"}}, 0}}},
      {"the largest length", little_endian(UINT64_MAX) + "\xFF", {"ST010"}},
      {"at the cap", little_endian(100'000'000) + "{}", {"ST011"}, {{"ST011", {}, {{"available", "2"}}}}},
      {"cut inside the header", safetensors_file(header).substr(0, 8 + n - 1), {"ST011"}},
      {"whole header, no data", safetensors_file(header), {"ST040"}},
      {"length only", little_endian(5), {"ST011"}, {{"ST011", {}, {{"n", "5"}, {"available", "0"}}}}},
      {"length 0", little_endian(0), {"ST012"}},
      {"length 0 and data", little_endian(0) + "{}", {"ST012"}},
      {"not UTF-8", safetensors_file("{\"a\xFF\":1}"), {"ST015"}, {{"ST015", {}, {{"offset", "11"}}, 11}}},
      {"overlong", safetensors_file("{\"\xC0\x80\":1}"), {"ST015"}},
      {"encoded surrogate", safetensors_file("{\"\xED\xA0\x80\":1}"), {"ST015"}},
      {"past U+10FFFF", safetensors_file("{\"\xF4\x90\x80\x80\":1}"), {"ST015"}},
      {"byte order mark", safetensors_file("\xEF\xBB\xBF{}"), {"ST016"}, {{"ST016", {}, {}, 8}}},
      {"leading whitespace",
       safetensors_file(" \t\r\n" + header + "    ", 4),
       {"ST017"},
       {{"ST017", {}, {{"count", "4"}}}}},
      {"padding with a tab",
       safetensors_file(header + "    \t   ", 4),
       {"ST018"},
       {{"ST018", {}, {{"byte", "09"}}}}},
      {"padding of nothing but newlines",
       safetensors_file(header + "\n\n\n\n\n\n\n\n", 4),
       {"ST018"},
       {{"ST018", {}, {{"byte", "0a"}}, 8 + n}}},
      {"NUL padding",
       safetensors_file("{}" + std::string(6, '\0')),
       {"ST019"},
       {{"ST019", {}, {{"count", "6"}, {"offset", "10"}, {"byte", "00"}}, 10}}},
      {"garbage behind spaces",
       safetensors_file("{}   x  "),
       {"ST019"},
       {{"ST019", {}, {{"count", "3"}, {"offset", "13"}}}}},
      {"odd padding before garbage", safetensors_file("{}\n\n\n\nx "), {"ST019"}},
      {"two values", safetensors_file("{}{}    "), {"ST019"}, {{"ST019", {}, {{"byte", "7b"}}}}},
      {"an array", safetensors_file("[]      "), {"ST021"}, {{"ST021", {}, {{"kind", "array"}}}}},
      {"a string", safetensors_file("  \"a\"   "), {"ST017", "ST021"}},
      {"odd padding behind an array", safetensors_file("[1]\t    "), {"ST018", "ST021"}},
      {"null", safetensors_file("null    "), {"ST021"}, {{"ST021", {}, {{"kind", "null"}}}}},
  });
}

TEST_CASE("JSON: the first error in text order decides") {
  const std::string deep = std::string(127, '[') + std::string(127, ']');
  check({
      {"trailing comma", safetensors_file("{\"a\":1,}"), {"ST020"}, {{"ST020", {}, {{"offset", "15"}}, 15}}},
      {"only spaces", safetensors_file("        "), {"ST017", "ST020"}},
      {"cut", safetensors_file("{\"a\":"), {"ST020"}},
      {"NaN", safetensors_file("{\"a\":NaN}"), {"ST020"}},
      {"comment", safetensors_file("{/**/}"), {"ST020"}},
      {"control character", safetensors_file("{\"a\tb\":1}"), {"ST020"}},
      {"unknown escape", safetensors_file("{\"\\x41\":1}"), {"ST020"}},
      {"127 levels", safetensors_file("{\"a\":" + deep.substr(1, 252) + "}"), {"ST044", "ST028", "ST051"}},
      {"128 levels",
       safetensors_file("{\"a\":" + deep + "}"),
       {"ST029"},
       {{"ST029", {}, {{"offset", std::to_string(8 + 5 + 126)}}, 8 + 5 + 126}}},
      {"depth before a syntax error", safetensors_file(std::string(200, '[') + "x"), {"ST029"}},
      {"a syntax error before depth", safetensors_file("[x" + std::string(200, '[')), {"ST020"}},
      {"lone surrogate",
       safetensors_file("{\"a\\ud800\":1}"),
       {"ST066"},
       {{"ST066", {}, {{"offset", "11"}}, 11}}},
      {"lone low surrogate", safetensors_file("{\"\\udc00\":1}"), {"ST066"}},
      {"two high surrogates", safetensors_file("{\"\\ud800\\ud800\":1}"), {"ST066"}},
      {"a surrogate before a syntax error", safetensors_file("{\"\\ud800\":x}"), {"ST066"}},
      {"a syntax error before a surrogate", safetensors_file("{x:\"\\ud800\"}"), {"ST020"}},
      {"a pair", with_entries(entry("\\ud83d\\ude00", "F32", "[]", "[0,4]"), 4), {}},
  });
}

TEST_CASE("large headers are hinted, larger ones warned of, and those beyond the limit not read") {
  const std::string start = "{" + kFormat + "," + kScalar + "}";
  for (const auto& [length, rules] :
       std::vector<std::pair<uint64_t, std::vector<std::string>>>{{5'242'872, {}},
                                                                  {5'242'880, {"ST014"}},
                                                                  {25'000'000, {"ST014"}},
                                                                  {25'000'008, {"ST013"}},
                                                                  {100'000'000, {"ST013"}}}) {
    std::string text = start;
    text.resize(length, ' ');
    CHECK(rules_of(scan_file("m", safetensors_file(text, 4))) == rules);
    HeaderOptions options;
    options.max_header = length - 1;
    CHECK(rules_of(scan_file("m", safetensors_file(text, 4), options)) == std::vector<std::string>{"ST010"});
    options.max_header = length;
    CHECK(scan_file("m", safetensors_file(text, 4), options).sound);
  }
}
