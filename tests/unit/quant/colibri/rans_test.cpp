#include "tftf/quant/colibri/rans.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "tftf/base/json_value.h"

using namespace tftf;
using namespace tftf::colibri;

TEST_CASE("frequency tables equal the reference tables") {
  std::ifstream file(std::string(TFTF_TEST_DATA) + "/golden/colibri/cases/rans-freq-a/out/tables.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto document = parse_json(text.str(), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  REQUIRE(document.root.elements.size() > 3);
  for (const JsonValue& row : document.root.elements) {
    INFO(row.brief());
    std::array<uint64_t, 16> histogram{};
    for (size_t i = 0; i < 16; ++i)
      histogram[i] = static_cast<uint64_t>(*row.find("hist")->elements[i].as_integer());
    const RansTable table = rans_table(histogram);
    for (size_t i = 0; i < 16; ++i) {
      CHECK(table.freq[i] == *row.find("freq")->elements[i].as_integer());
      CHECK(table.start[i] == *row.find("start")->elements[i].as_integer());
    }
    CHECK(rans_table_crc(table) == row.string("crc32"));
  }
}

TEST_CASE(
    "records decode to what was coded, and every damaged byte is noticed or decodes to something else") {
  std::mt19937 random(20261129);
  for (size_t bytes : {1u, 2u, 127u, 128u, 129u, 5000u}) {
    std::vector<std::byte> packed(bytes);
    for (auto& b : packed) b = static_cast<std::byte>((random() % 5 + random() % 5) | (random() % 16) << 4);
    std::array<uint64_t, 16> histogram{};
    count_nibbles(packed, histogram);
    const RansTable table = rans_table(histogram);
    auto record = encode_rans(packed, table);
    CHECK(record.size() % 16 == 0);
    std::vector<std::byte> decoded;
    CHECK_FALSE(decode_rans(record, table, bytes, decoded));
    CHECK(decoded == packed);
    CHECK(decode_rans(record, table, bytes - 1, decoded)->fault == RansFault::kOversize);
    for (int i = 0; i < 300; ++i) {
      const size_t at = random() % record.size();
      const auto keep = record[at];
      record[at] ^= static_cast<std::byte>(1 + random() % 255);
      const auto failure = decode_rans(record, table, bytes, decoded);
      CHECK((failure || decoded != packed));
      record[at] = keep;
    }
  }
}

TEST_CASE("faults are named in the order of the checks") {
  std::vector<std::byte> packed(200, std::byte{0x37});
  std::array<uint64_t, 16> histogram{};
  count_nibbles(packed, histogram);
  const RansTable table = rans_table(histogram);
  const auto good = encode_rans(packed, table);
  auto fault = [&](auto edit) {
    auto record = good;
    edit(record);
    std::vector<std::byte> decoded;
    const auto failure = decode_rans(record, table, 1 << 20, decoded);
    return failure ? rans_fault_class(failure->fault) : "none";
  };
  using R = std::vector<std::byte>;
  CHECK(fault([](R&) {}) == "none");
  CHECK(fault([](R& r) { r.resize(1055); }) == "E_TRUNCATED");
  CHECK(fault([](R& r) { store_le<uint64_t>(r.data(), 0); }) == "E_EMPTY");
  CHECK(fault([](R& r) { store_le<uint64_t>(r.data() + 8, 3); }) == "E_COUNT_MISMATCH");
  CHECK(fault([](R& r) { store_le<uint32_t>(r.data() + 16, 1); }) == "E_OFFSET_FIRST");
  CHECK(fault([](R& r) { store_le<uint32_t>(r.data() + 20, 0xFFFFFF); }) == "E_OFFSETS_MONOTONIC");
  CHECK(fault([](R& r) { store_le<uint32_t>(r.data() + 20, 2); }) == "E_STREAM_SHORT");
  CHECK(fault([](R& r) { r.resize(r.size() - 16); }) == "E_TRUNCATED");
  CHECK(fault([](R& r) { r.resize(r.size() + 16); }) == "E_LENGTH_MISMATCH");
  CHECK(fault([](R& r) {
          store_le<uint64_t>(r.data(), uint64_t{1} << 40);
          store_le<uint64_t>(r.data() + 8, uint64_t{1} << 39);
        }) == "E_OVERSIZE");
  CHECK(fault([](R& r) { r[16 + 4 * 257] = std::byte{1}; }) == "E_PAD_NONZERO");
  CHECK(fault([](R& r) { store_le<uint32_t>(r.data() + kRansRecordHeader, 0); }) == "E_STREAM_STATE_RANGE");
}
