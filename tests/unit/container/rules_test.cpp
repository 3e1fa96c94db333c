// Every container rule: headers that fire it, with subject, place and values, and close ones that do not.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "test_files.h"

using namespace tftf;
using test::safetensors_file;
using test::scan_file;

namespace {

// A finding as text: "ST052 b offset=155 tensor=b dtype=F32 …". What `expected` does not name is not compared.
struct Expected {
  std::string_view rule;
  std::optional<std::string> subject{};
  std::map<std::string, std::string> values{};
  std::optional<uint64_t> offset{};
  std::optional<std::string> pointer{};
};

std::string value_text(const DiagnosticValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  if (const auto* shape = std::get_if<Shape>(&value)) return shape_text(*shape);
  return "(missing)";
}

std::vector<std::string> rules_of(const HeaderScan& scan) {
  std::vector<std::string> ids;
  for (const Diagnostic& finding : scan.findings) ids.emplace_back(rule_info(finding.rule).id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::string> sorted(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  return list;
}

void check_finding(const HeaderScan& scan, const Expected& expected) {
  INFO(expected.rule << " " << expected.subject.value_or("(null)"));
  const auto matches = [&](const Diagnostic& finding) {
    if (rule_info(finding.rule).id != expected.rule || finding.subject != expected.subject) return false;
    if (expected.offset && finding.offset != expected.offset) return false;
    if (expected.pointer && finding.pointer != *expected.pointer) return false;
    for (const auto& [key, text] : expected.values) {
      const auto found = std::find_if(finding.values.begin(), finding.values.end(),
                                      [&, name = key](const auto& value) { return value.first == name; });
      if (found == finding.values.end() || value_text(found->second) != text) return false;
    }
    return true;
  };
  if (std::any_of(scan.findings.begin(), scan.findings.end(), matches)) {
    SUCCEED();
    return;
  }
  std::string found;
  for (const Diagnostic& finding : scan.findings) {
    if (found.size() > 4000) break;
    found += "\n  " + std::string(rule_info(finding.rule).id) + " " + finding.subject.value_or("(null)") +
             " at " + std::to_string(finding.offset.value_or(0)) + " " + finding.pointer;
    for (const auto& [key, value] : finding.values) found += " " + key + "=" + value_text(value);
  }
  FAIL("not among the findings:" << found);
}

// An entry as JSON text.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}
const std::string kFormat = R"("__metadata__":{"format":"pt"})";

// A header padded to a multiple of 8, as writers do.
std::string padded(std::string text) {
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}
// A file with metadata and these entries.
std::string with_entries(const std::string& entries, uint64_t data_bytes) {
  return safetensors_file(padded("{" + kFormat + (entries.empty() ? "" : ",") + entries + "}"), data_bytes);
}
std::string with_metadata(const std::string& metadata) {
  return safetensors_file(
      padded("{\"__metadata__\":" + metadata + "," + entry("a", "F32", "[]", "[0,4]") + "}"), 4);
}
std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  store_le(reinterpret_cast<std::byte*>(bytes.data()), value);
  return bytes;
}

struct Case {
  const char* title;
  std::string file;
  std::vector<std::string> rules;  // all of them
  std::vector<Expected> findings{};
};

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    INFO(one.title);
    const HeaderScan scan = scan_file("m.safetensors", one.file);
    CHECK(rules_of(scan) == sorted(one.rules));
    for (const Expected& expected : one.findings) check_finding(scan, expected);
    bool error = false;
    for (const Diagnostic& finding : scan.findings) {
      CHECK(finding.file == "m.safetensors");
      error = error || rule_info(finding.rule).severity == Severity::kError;
      // Every value of the template is there: message() would say "missing" for what is not.
      const std::string_view text = rule_info(finding.rule).message;
      for (const auto& [key, value] : finding.values)
        if (key != "tensor") CHECK(text.find("{" + key + "}") != std::string_view::npos);
      const bool empty_value = message(finding).find("missing") != std::string::npos;
      CHECK((!empty_value || finding.rule == Rule::ST003 || finding.rule == Rule::ST049 ||
             finding.rule == Rule::ST040 || finding.rule == Rule::ST052));
    }
    CHECK(scan.sound == (scan.readable && !error));
    if (!scan.readable) CHECK(error);
  }
}

const std::string kScalar = entry("a", "F32", "[]", "[0,4]");

}  // namespace

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
       {{"ST010", {}, {{"n", "100000001"}}, 0}}},
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

TEST_CASE("metadata") {
  check({
      {"format pt", with_metadata(R"({"format":"pt"})"), {}},
      {"format mlx and others", with_metadata(R"({"x":"y","format":"mlx"})"), {}},
      {"absent", safetensors_file(padded("{" + kScalar + "}"), 4), {"ST044"}},
      {"null", with_metadata("null"), {"ST046"}, {{"ST046", {}, {}, 9, "/__metadata__"}}},
      {"empty", with_metadata("{}"), {"ST048"}},
      {"array", with_metadata("[1,[2]]"), {"ST045"}, {{"ST045", {}, {{"kind", "array"}}}}},
      {"string", with_metadata("\"x\""), {"ST045"}},
      {"boolean", with_metadata("true"), {"ST045"}},
      {"no format", with_metadata(R"({"a":"b"})"), {"ST049"}, {{"ST049", {}, {{"value", "(missing)"}}}}},
      {"another format",
       with_metadata(R"({"format":"PT"})"),
       {"ST049"},
       {{"ST049", {}, {{"value", "PT"}}, {}, "/__metadata__/format"}}},
      {"format a number",
       with_metadata(R"({"format":12.5})"),
       {"ST047", "ST049"},
       {{"ST049", {}, {{"value", "12.5"}}}}},
      {"format an object",
       with_metadata(R"({"format":{"x":[]}})"),
       {"ST047", "ST049"},
       {{"ST049", {}, {{"value", "object"}}}}},
      {"a value that is no string",
       with_metadata(R"({"format":"pt","step":3,"x":null})"),
       {"ST047", "ST047"},
       {{"ST047", "step", {{"kind", "number"}}, {}, "/__metadata__/step"},
        {"ST047", "x", {{"kind", "null"}}}}},
      {"a key twice",
       with_metadata(R"({"a":"1","format":"np","a":"2","a":"3"})"),
       {"ST023"},
       {{"ST023", "a", {{"count", "3"}}}}},
      {"the last value of equal keys counts for the format",
       with_metadata(R"({"format":"x","format":"tf"})"),
       {"ST023"}},
      {"every value of equal keys must be a string",
       with_metadata(R"({"format":1,"format":"tf"})"),
       {"ST023", "ST047"}},
      {"twice, the last counts",
       safetensors_file(padded("{\"__metadata__\":3," + kFormat + "," + kScalar + "}"), 4),
       {"ST024"},
       {{"ST024", {}, {{"count", "2"}}}}},
      {"twice, spelled with escapes",
       safetensors_file(padded("{\"\\u005f_metadata__\":{}," + kFormat + "," + kScalar + "}"), 4),
       {"ST024"}},
      {"a tensor under the name",
       with_metadata(R"({"dtype":"F32","shape":[2, 3],"data_offsets":[0,24]})"),
       {"ST050"},
       {{"ST050", {}, {{"dtype", "F32"}, {"shape", "[2, 3]"}}}}},
      {"a tensor under the name, with markup",
       with_metadata(R"({"dtype":"F32","shape":3,"data_offsets":[],"y":"<IMG"})"),
       {"ST050", "ST069"}},
      {"three strings are no tensor",
       with_metadata(R"({"dtype":"F32","shape":"[]","data_offsets":"[]"})"),
       {"ST049"}},
      {"markup in a value",
       with_metadata(R"({"format":"pt","d":"x <ScRipt>"})"),
       {"ST069"},
       {{"ST069", "d", {{"found", "<script"}}}}},
      {"markup in a key",
       with_metadata(R"({"format":"pt","JavaScript:x":""})"),
       {"ST069"},
       {{"ST069", "JavaScript:x", {{"found", "javascript:"}}}}},
      {"markup in a value that a later one replaces",
       with_metadata(R"({"format":"pt","d":"<svg","d":""})"),
       {"ST023", "ST069"}},
      {"no markup", with_metadata(R"({"format":"pt","d":"a < script, script:, im<g, javascript"})"), {}},
  });
  const HeaderScan scan = scan_file("m", with_metadata(R"({"b":"1","format":"pt","b":"2","\u0061":"\n"})"));
  CHECK(scan.header.has_metadata);
  CHECK(scan.header.metadata == Metadata{{"b", "2"}, {"format", "pt"}, {"a", "\n"}});
}

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

TEST_CASE("entries: fields") {
  auto one = [](const std::string& value, uint64_t bytes = 0) {
    return with_entries("\"a\":" + value, bytes);
  };
  check({
      {"array entry",
       one(R"(["F32",[1],[0,4]])"),
       {"ST028"},
       {{"ST028", "a", {{"kind", "array"}}, {}, "/a"}}},
      {"string entry", one("\"x\""), {"ST028"}, {{"ST028", "a", {{"kind", "string"}}}}},
      {"null entry", one("null"), {"ST028"}},
      {"no field",
       one("{}"),
       {"ST027", "ST027", "ST027"},
       {{"ST027", "a", {{"field", "dtype"}}},
        {"ST027", "a", {{"field", "shape"}}},
        {"ST027", "a", {{"field", "data_offsets"}}}}},
      {"unknown fields, deep ones too",
       one(R"({"dtype":"F32","x":{"dtype":[[{"shape":[1]}]]},"shape":[],"data_offsets":[0,4],"Dtype":1})", 4),
       {"ST026", "ST026"},
       {{"ST026", "a", {{"field", "x"}}, {}, "/a/x"}, {"ST026", "a", {{"field", "Dtype"}}}}},
      {"a field twice, the last counts",
       one(R"({"dtype":"X","dtype":"F32","shape":"no","shape":[],"data_offsets":[9],"data_offsets":[0,4]})",
           4),
       {"ST025", "ST025", "ST025"},
       {{"ST025", "a", {{"field", "shape"}, {"count", "2"}}}}},
      {"dtype a number",
       one(R"({"dtype":3,"shape":[],"data_offsets":[0,0]})"),
       {"ST030"},
       {{"ST030", "a", {{"dtype", "number"}, {"suggestion", ""}}, {}, "/a/dtype"}}},
      {"dtype an object",
       one(R"({"dtype":{"F32":null},"shape":[],"data_offsets":[0,0]})"),
       {"ST030"},
       {{"ST030", "a", {{"dtype", "object"}}}}},
      {"dtype an array",
       one(R"({"dtype":["F32"],"shape":[],"data_offsets":[0,0]})"),
       {"ST030"},
       {{"ST030", "a", {{"dtype", "array"}}}}},
      {"dtype in lower case",
       one(R"({"dtype":"f32","shape":[],"data_offsets":[0,0]})"),
       {"ST030"},
       {{"ST030", "a", {{"dtype", "f32"}, {"suggestion", " (did you mean F32?)"}}}}},
      {"torch's name",
       one(R"({"dtype":"torch.float8_e4m3fn","shape":[],"data_offsets":[0,0]})"),
       {"ST030"},
       {{"ST030", "a", {{"suggestion", " (did you mean F8_E4M3?)"}}}}},
      {"a dtype for newer readers",
       one(R"({"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]})", 2),
       {"ST031"},
       {{"ST031", "F8_E8M0", {{"count", "1"}, {"version", "0.6.0"}}}}},
      {"F64",
       one(R"({"dtype":"F64","shape":[2],"data_offsets":[0,16]})", 16),
       {"ST091"},
       {{"ST091", {}, {{"count", "1"}}}}},
  });
}

TEST_CASE("entries: shapes and offsets") {
  auto shape = [](const std::string& text, const std::string& offsets, uint64_t bytes,
                  const std::string& dtype = "U8") {
    return with_entries(entry("a", dtype, text, offsets), bytes);
  };
  const std::string kRange = "an element is not an integer in range";
  check({
      {"negative",
       shape("[2,-1]", "[0,0]", 0),
       {"ST032"},
       {{"ST032", "a", {{"value", "[2,-1]"}, {"detail", kRange}}, {}, "/a/shape"}}},
      {"fraction", shape("[1.5]", "[0,0]", 0), {"ST032"}},
      {"2^64", shape("[18446744073709551616]", "[0,0]", 0), {"ST032"}},
      {"2^64 written another way", shape("[18446744073709551616.0]", "[0,0]", 0), {"ST032"}},
      {"1e400", shape("[1e400]", "[0,0]", 0), {"ST032"}},
      {"string element", shape("[\"1\"]", "[0,0]", 0), {"ST032"}},
      {"null element", shape("[null]", "[0,0]", 0), {"ST032"}},
      {"array element", shape("[[1]]", "[0,0]", 0), {"ST032"}, {{"ST032", "a", {{"value", "[[1]]"}}}}},
      {"object element", shape("[{\"a\":[2]},1]", "[0,0]", 0), {"ST032"}},
      {"a string", shape("\"4\"", "[0,0]", 0), {"ST032"}, {{"ST032", "a", {{"value", "\"4\""}}}}},
      {"null", shape("null", "[0,0]", 0), {"ST032"}, {{"ST032", "a", {{"value", "null"}}}}},
      {"an object", shape("{}", "[0,0]", 0), {"ST032"}, {{"ST032", "a", {{"value", "an object"}}}}},
      {"one finding for many bad elements", shape("[-1,-1,null]", "[0,0]", 0), {"ST032"}},
      {"other spellings of whole numbers",
       shape("[1.0,2e0,-0]", "[0,0.0]", 0),
       {"ST033", "ST033", "ST033", "ST033", "ST056"},
       {{"ST033", "a", {{"field", "shape"}, {"literal", "2e0"}}},
        {"ST033", "a", {{"field", "data_offsets"}, {"literal", "0.0"}}}}},
      {"spelling and a bad element", shape("[1.0,-1]", "[0,0]", 0), {"ST032", "ST033"}},
      {"no offsets array", shape("[]", "{}", 0), {"ST034"}},
      {"one offset",
       shape("[]", "[0]", 0),
       {"ST034"},
       {{"ST034", "a", {{"detail", "1 elements"}, {"value", "[0]"}}}}},
      {"no offset", shape("[]", "[]", 0), {"ST034"}, {{"ST034", "a", {{"detail", "0 elements"}}}}},
      {"three offsets", shape("[]", "[0,1,2]", 0), {"ST034"}},
      {"offset not a number", shape("[]", "[0,true]", 0), {"ST034"}, {{"ST034", "a", {{"detail", kRange}}}}},
      {"offset above 2^64-1", shape("[]", "[0,18446744073709551616]", 0), {"ST034"}},
      {"product overflow",
       shape("[18446744073709551615,2]", "[0,0]", 0),
       {"ST035"},
       {{"ST035", "a", {{"shape", "[18446744073709551615,2]"}, {"dtype", "U8"}}}}},
      {"overflow before a zero", shape("[4294967296,4294967296,0]", "[0,0]", 0), {"ST035", "ST056"}},
      {"a zero before the overflow", shape("[0,4294967296,4294967296]", "[0,0]", 0), {"ST056"}},
      {"bits overflow", shape("[2305843009213693952]", "[0,0]", 0), {"ST035"}},
      {"the largest size", shape("[2305843009213693951]", "[0,0]", 0), {"ST037"}},
      {"half a byte",
       shape("[3]", "[0,2]", 2, "F4"),
       {"ST031", "ST036"},
       {{"ST036", "a", {{"elements", "3"}, {"bits", "12"}, {"dtype", "F4"}}}}},
      {"whole bytes of F4", shape("[2,3]", "[0,3]", 3, "F4"), {"ST031"}},
      {"four F6 are three bytes", shape("[4]", "[0,3]", 3, "F6_E2M3"), {"ST031"}},
      {"too few bytes",
       shape("[4]", "[0,2]", 2),
       {"ST037"},
       {{"ST037", "a", {{"expected", "4"}, {"actual", "2"}, {"shape", "[4]"}}}}},
      {"reversed", shape("[4]", "[4,0]", 4), {"ST038"}, {{"ST038", "a", {{"begin", "4"}, {"end", "0"}}}}},
      {"unknown dtype hides the size", shape("[4]", "[0,2]", 2, "U9"), {"ST030"}},
      {"empty", shape("[0,3]", "[0,0]", 0), {"ST056"}, {{"ST056", "a", {{"shape", "[0,3]"}}}}},
      {"rank 8", shape("[1,1,1,1,1,1,1,1]", "[0,1]", 1), {}},
      {"rank 9", shape("[1,1,1,1,1,1,1,1,1]", "[0,1]", 1), {"ST058"}, {{"ST058", "a", {{"rank", "9"}}}}},
      {"placeholder", with_entries(entry("x.weight", "F32", "[0]", "[0,0]"), 0), {"ST057"}},
      {"placeholder of a bias", with_entries(entry("x.bias", "F32", "[0]", "[0,0]"), 0), {"ST057"}},
      {"placeholder of an adapter", with_entries(entry("lora_A.x", "F32", "[0]", "[0,0]"), 0), {"ST057"}},
      {"no placeholder", with_entries(entry("x.weights", "F32", "[0]", "[0,0]"), 0), {"ST056"}},
      {"two zeros are no placeholder",
       with_entries(entry("x.weight", "F32", "[0,0]", "[0,0]"), 0),
       {"ST056"}},
  });
}

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

TEST_CASE("counts") {
  std::string entries;
  for (uint64_t i = 0; i < 65'537; ++i)
    entries += (i == 0 ? "" : ",") + entry(std::to_string(i), "U8", "[0]", "[0,0]");
  const HeaderScan scan = scan_file("m", with_entries(entries, 0));
  CHECK(scan.sound);
  check_finding(scan, {"ST059", {}, {{"count", "65537"}}});
  check({
      {"no tensors", safetensors_file(padded("{" + kFormat + "}")), {"ST055"}},
      {"no tensors in a broken file", safetensors_file(padded("{\"__metadata__\":3}")), {"ST045", "ST055"}},
  });
  CHECK(mixed_dtypes({&scan.header}) == "");
  const HeaderScan mixed = scan_file(
      "m", with_entries(entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "BF16", "[1]", "[4,6]") + "," +
                            entry("c", "BF16", "[0]", "[6,6]") + "," + entry("d", "C64", "[0]", "[6,6]") +
                            "," + entry("e", "I8", "[0]", "[6,6]"),
                        6));
  CHECK(mixed_dtypes({&mixed.header}) == "BF16:2,F32:1");
  CHECK(mixed_dtypes({&mixed.header, &mixed.header}) == "BF16:4,F32:2");
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
