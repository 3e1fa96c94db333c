#include "tftf/quant/colibri/stamps.h"

#include <catch2/catch.hpp>

#include "test_files.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

std::string fault_of(const std::string& text) {
  StampMap stamps;
  const auto refusal = stamps.ingest("f", &text, false);
  return refusal ? std::string(stamp_fault_class(refusal->fault)) : "ok";
}

std::string many_stamps(size_t count, const std::string& more = "") {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) text += (i ? ",\"t" : "\"t") + std::to_string(i) + "\":\"f32\"";
  return text + more + "}";
}

}  // namespace

TEST_CASE("stamps are taken in or refused by name") {
  CHECK(fault_of("{}") == "ok");
  CHECK(fault_of(" {\"a\": \"nonsense\"} ") == "ok");
  CHECK(fault_of("{\"a\":\"f32\",\"a\":\"f32\"}") == "ok");
  CHECK(fault_of("{\"a\":\"f32\",\"a\":\"int8-row\"}") == "stamp-conflict");
  CHECK(fault_of("{\"a\":3}") == "stamp-entry-not-string");
  CHECK(fault_of("{\"a\":null}") == "stamp-entry-not-string");
  CHECK(fault_of("{\"a\":{\"b\":\"f32\"}}") == "stamp-entry-not-string");
  CHECK(fault_of("{\"a\":[\"f32\"]}") == "stamp-entry-not-string");
  for (const char* text : {"", " ", "[]", "3", "\"x\"", "null", "{", "{\"a\":\"f32\"} x", "{\"a\":\"f32\",}",
                           "\xFF", "\xEF\xBB\xBF{}", "[{\"a\":\"f32\"}]"})
    CHECK(fault_of(text) == "stamp-not-object");
  StampMap stamps;
  CHECK(stamps.ingest("f", nullptr, true)->fault == StampFault::kNotString);
  CHECK_FALSE(stamps.ingest("f", nullptr, false));
  // What is broken stamps nothing, not even what came before the fault.
  const std::string broken = "{\"a\":\"f32\",";
  CHECK(stamps.ingest("f", &broken, false));
  CHECK_FALSE(stamps.find("a"));
}

TEST_CASE("the cap counts distinct names over all shards; the millionth stamp needs no memory") {
  CHECK(fault_of(many_stamps(4096)) == "ok");
  CHECK(fault_of(many_stamps(4096, ",\"t0\":\"f32\"")) == "ok");
  CHECK(fault_of(many_stamps(4097)) == "stamp-cap");
  StampMap stamps;
  const std::string first = many_stamps(4096);
  const std::string same = many_stamps(10);
  const std::string more = "{\"other\":\"f32\"}";
  CHECK_FALSE(stamps.ingest("a", &first, false));
  CHECK_FALSE(stamps.ingest("b", &same, false));
  const auto refusal = stamps.ingest("c", &more, false);
  REQUIRE(refusal);
  CHECK(refusal->fault == StampFault::kCap);
  CHECK(refusal->file == "c");
  CHECK(refusal->tensor == "other");
  StampMap hostile;
  const std::string million = many_stamps(1'000'000);
  CHECK(hostile.ingest("a", &million, false)->fault == StampFault::kCap);
  CHECK(hostile.all().size() == 4097);
  StampMap uncapped(UINT64_MAX);
  CHECK_FALSE(uncapped.ingest("a", &million, false));
  CHECK(uncapped.all().size() == 1'000'000);
}

TEST_CASE("deep JSON in a stamp is refused in little stack") {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string text = "{\"x\":";
    for (int i = 0; i < 200'000; ++i) text += open;
    CHECK(fault_of(text + "}") == "stamp-not-object");
  }
}

TEST_CASE("names are compared exactly, escapes decoded") {
  StampMap stamps;
  const std::string text = R"({"mod\u00e8le.weight": "f32", "a\/b": "int8-row", "n\u0000": "f32"})";
  CHECK_FALSE(stamps.ingest("f", &text, false));
  CHECK(stamps.find("mod\xC3\xA8le.weight") == "f32");
  CHECK(stamps.find("a/b") == "int8-row");
  CHECK(stamps.find(std::string_view("n\0", 2)) == "f32");
  CHECK_FALSE(stamps.find("n"));
}

TEST_CASE("a header's stamps are found whatever kind they are") {
  const auto fault = [](const std::string& metadata) -> std::string {
    const HeaderScan scan = test::scan_file(
        "f", test::safetensors_file("{\"__metadata__\":" + metadata +
                                    ",\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"));
    REQUIRE(scan.readable);
    StampMap stamps;
    const auto refusal = stamps.ingest("f", scan.header);
    if (refusal) return std::string(stamp_fault_class(refusal->fault));
    return stamps.find("a").value_or("none");
  };
  CHECK(fault("{}") == "none");
  CHECK(fault("null") == "none");
  CHECK(fault("{\"colibri.fmt\":\"{\\\"a\\\":\\\"f32\\\"}\"}") == "f32");
  CHECK(fault("{\"colibri.fmt\":{\"a\":\"f32\"}}") == "stamp-not-string");
  CHECK(fault("{\"colibri.fmt\":null}") == "stamp-not-string");
  CHECK(fault("{\"colibri.fmt\":3,\"colibri.fmt\":\"{}\"}") == "none");  // the last of equal keys counts
  CHECK(fault("{\"colibri.fmt\":\"{}\",\"colibri.fmt\":3}") == "stamp-not-string");
}
