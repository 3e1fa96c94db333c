// Container rules about entries and counts: cases that fire and close ones that do not.
#include <catch2/catch.hpp>

#include "header_cases.h"

using namespace tftf;
using namespace tftf::test;

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
