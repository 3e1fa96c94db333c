// Headers made to do harm: work and memory stay in proportion to the header, and findings are bounded.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "test_files.h"

using namespace tftf;
using test::safetensors_file;
using test::scan_file;

namespace {

std::string repeat(std::string_view part, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

uint64_t count_of(const HeaderScan& scan, Rule rule, bool with_omitted = true) {
  uint64_t count = 0;
  for (const Diagnostic& finding : scan.findings) count += finding.rule == rule ? 1 : 0;
  if (with_omitted)
    for (const auto& [omitted, more] : scan.omitted) count += omitted == rule ? more : 0;
  return count;
}

uint64_t text_bytes(const HeaderScan& scan) {
  uint64_t bytes = 0;
  for (const Diagnostic& finding : scan.findings) {
    bytes += finding.pointer.size() + finding.subject.value_or("").size();
    for (const auto& [key, value] : finding.values)
      if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  }
  return bytes;
}

}  // namespace

TEST_CASE("nearly a million brackets are one finding") {
  for (const char* bracket : {"[", "{\"a\":", "[[{\"\":"}) {
    const HeaderScan scan = scan_file("m", safetensors_file(repeat(bracket, 800'000)));
    CHECK(count_of(scan, Rule::ST029) == 1);
    CHECK(scan.findings.size() == 1);
    CHECK_FALSE(scan.readable);
  }
}

TEST_CASE("findings beyond the limit are counted, and those kept are the first") {
  std::string text = "{";
  for (int i = 0; i < 30'000; ++i) text += "\"<" + std::to_string(i) + "\":{},";
  text.back() = '}';
  const HeaderScan scan = scan_file("m", safetensors_file(text));
  CHECK(count_of(scan, Rule::ST063, false) == 10'000);
  CHECK(count_of(scan, Rule::ST063) == 30'000);
  CHECK(count_of(scan, Rule::ST027) == 90'000);
  CHECK(scan.header.tensors.empty());
  for (const Diagnostic& finding : scan.findings)
    if (finding.rule == Rule::ST063) CHECK(std::stoi(finding.subject->substr(1)) < 10'000);
  HeaderOptions options;
  options.max_findings = 3;
  CHECK(count_of(scan_file("m", safetensors_file(text), options), Rule::ST063, false) == 3);
  options.max_findings = 0;
  const HeaderScan counted = scan_file("m", safetensors_file(text), options);
  CHECK(counted.findings.empty());
  CHECK_FALSE(counted.sound);
  CHECK(count_of(counted, Rule::ST027) == 90'000);
}

TEST_CASE("an error among the omitted findings makes the file unsound") {
  HeaderOptions options;
  options.max_findings = 1;
  std::string text = "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"b\":1,\"b\":1}";
  CHECK_FALSE(scan_file("m", safetensors_file(text, 1), options).sound);
}

TEST_CASE("a name of a megabyte in every finding stays within the bound of text") {
  const std::string name(1'000'000, '<');
  std::string text = "{";
  for (int i = 0; i < 40; ++i) text += "\"" + name + "\":{\"x\":1,\"y\":2},";
  text.back() = '}';
  const HeaderScan scan = scan_file("m", safetensors_file(text));
  CHECK(text_bytes(scan) < 70'000'000);
  CHECK(count_of(scan, Rule::ST026) == 80);
  CHECK(count_of(scan, Rule::ST022) == 1);
  CHECK(count_of(scan, Rule::ST068) == 40);
}

TEST_CASE("names with equal hashes, and names that differ in case only, are told apart") {
  std::string text = "{";
  for (uint32_t i = 0; i < 4096; ++i) {
    std::string name = "abcdefghijkl";
    for (uint32_t bit = 0; bit < 12; ++bit)
      if (i >> bit & 1) name[bit] = static_cast<char>(name[bit] - 32);
    text += "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},";
  }
  text.back() = '}';
  const HeaderScan scan = scan_file("m", safetensors_file(text));
  CHECK(scan.sound);
  CHECK(count_of(scan, Rule::ST067) == 4095);
  CHECK(count_of(scan, Rule::ST022) == 0);
  for (const Diagnostic& finding : scan.findings)
    if (finding.rule == Rule::ST067)
      for (const auto& [key, value] : finding.values)
        if (key == "other") CHECK(std::get<std::string>(value) == "ABCDEFGHIJKL");
}

TEST_CASE("repeated names are found among many, whatever their order and spelling") {
  std::mt19937 random(3);
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("layer." + std::to_string(i % 4900));
  std::shuffle(names.begin(), names.end(), random);
  std::string text = "{";
  for (const std::string& name : names)
    text += (random() % 3 == 0 ? "\"\\u006cayer" + name.substr(5) : "\"" + name) + "\":0,";
  text.back() = '}';
  const HeaderScan scan = scan_file("m", safetensors_file(text));
  CHECK(count_of(scan, Rule::ST022) == 100);
  CHECK(count_of(scan, Rule::ST067) == 0);
}

TEST_CASE("shapes and offsets of a hundred thousand elements are cut in messages") {
  const std::string ones = repeat("1,", 100'000) + "1";
  const HeaderScan shape = scan_file(
      "m", safetensors_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + ones + "],\"data_offsets\":[0,2]}}", 2));
  CHECK(count_of(shape, Rule::ST058) == 1);
  CHECK(count_of(shape, Rule::ST037) == 1);
  const HeaderScan offsets = scan_file(
      "m", safetensors_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[" + ones + "]}}"));
  CHECK(count_of(offsets, Rule::ST034) == 1);
  const HeaderScan odd =
      scan_file("m", safetensors_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + repeat("-0,", 50'000) +
                                      "0],\"data_offsets\":[0,0]}}"));
  CHECK(count_of(odd, Rule::ST033) == 50'000);
  for (const HeaderScan* scan : {&shape, &offsets, &odd})
    for (const Diagnostic& finding : scan->findings) CHECK(message(finding).size() < 1000);
}

TEST_CASE("numbers of a million digits are judged exactly") {
  const std::string zeros(1'000'000, '0');
  auto with_shape = [](const std::string& number) {
    return scan_file(
        "m",
        safetensors_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + number + "],\"data_offsets\":[0,1]}}", 1));
  };
  CHECK(count_of(with_shape("1." + zeros), Rule::ST033) == 1);
  CHECK(count_of(with_shape("1" + zeros), Rule::ST032) == 1);
  CHECK(count_of(with_shape("1." + zeros + "1"), Rule::ST032) == 1);
  CHECK(count_of(with_shape("1" + zeros + "e-1000000"), Rule::ST033) == 1);
  CHECK(count_of(with_shape("1e" + zeros), Rule::ST033) == 1);
  for (const Diagnostic& finding : with_shape("1" + zeros).findings) CHECK(message(finding).size() < 1000);
}

TEST_CASE("offsets near 2^64 overflow nowhere") {
  const std::string max = "18446744073709551615";
  for (const std::string& offsets :
       {"[0," + max + "]", "[" + max + "," + max + "]", "[18446744073709551614," + max + "]"}) {
    const HeaderScan scan = scan_file(
        "m", safetensors_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":" + offsets +
                                  "},\"b\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[1,1]}}",
                              4));
    CHECK_FALSE(scan.sound);
    CHECK(count_of(scan, Rule::ST039) >= 1);
  }
}

TEST_CASE("a header that is longer than its file is never asked for") {
  std::string bytes(8, '\0');
  store_le(reinterpret_cast<std::byte*>(bytes.data()), uint64_t{99'999'999});
  HeaderReader reader("m", 100);
  REQUIRE(reader.want());
  CHECK(reader.want()->length == 100);
  bytes.resize(100);
  reader.supply(as_bytes(bytes));
  CHECK_FALSE(reader.want());
  CHECK(reader.take().findings.size() == 1);
}

TEST_CASE("a file that shrinks or fails while it is read is an I/O finding") {
  const std::string text = "{" + std::string(20'000, ' ') + "}";
  const std::string file = safetensors_file(text);
  for (int stage = 0; stage < 3; ++stage)
    for (const bool fails : {false, true}) {
      HeaderReader reader("m", file.size());
      for (int i = 0;; ++i) {
        const auto range = reader.want();
        REQUIRE(range);
        const std::string piece = file.substr(range->offset, range->length);
        if (i < stage) {
          reader.supply(as_bytes(piece));
          continue;
        }
        if (fails)
          reader.fail("the disk is on fire");
        else
          reader.supply(as_bytes(std::string_view(piece).substr(1)));
        break;
      }
      CHECK_FALSE(reader.want());
      const HeaderScan scan = reader.take();
      CHECK(count_of(scan, Rule::ST009) == 1);
      CHECK_FALSE(scan.sound);
      CHECK_FALSE(scan.readable);
      CHECK(scan.header.tensors.empty());
    }
}

TEST_CASE("every prefix and every changed byte of a header is judged without harm") {
  const std::string sound = safetensors_file(
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\\u00e4\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_"
      "offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}",
      9);
  for (size_t length = 0; length < sound.size(); ++length)
    CHECK_FALSE(scan_file("m", std::string_view(sound).substr(0, length)).sound);
  for (size_t at = 0; at < sound.size(); ++at)
    for (const char byte : {'\0', '"', '\\', '{', '}', '[', ']', ',', ':', '9', ' ', '\x80', '\xFF'}) {
      std::string changed = sound;
      changed[at] = byte;
      const HeaderScan scan = scan_file("m", changed);
      CHECK((scan.sound || !scan.findings.empty()));
      for (const Diagnostic& finding : scan.findings) CHECK_FALSE(message(finding).empty());
    }
}
