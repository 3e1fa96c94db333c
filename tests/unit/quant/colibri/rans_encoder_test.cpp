#include "tftf/quant/colibri/rans_encoder.h"

#include <catch2/catch.hpp>
#include <random>

#include "tftf/base/json_value.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

std::vector<std::byte> skewed_nibbles(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> packed(bytes);
  for (auto& b : packed)
    b = static_cast<std::byte>((random() % 6 + random() % 6) | (random() % 4 + random() % 9) << 4);
  return packed;
}

RansTable table_for(const std::vector<std::byte>& packed) {
  std::array<uint64_t, 16> histogram{};
  count_nibbles(packed, histogram);
  return rans_table(histogram);
}

}  // namespace

TEST_CASE("a record has the size that was measured, and decodes") {
  for (const size_t bytes : {1u, 63u, 127u, 128u, 129u, 255u, 256u, 4097u, 70000u}) {
    const auto packed = skewed_nibbles(bytes, static_cast<uint32_t>(bytes));
    const RansTable table = table_for(packed);
    RansEncoder encoder(table);
    const auto size = encoder.measure(packed);
    REQUIRE(size);
    CHECK(*size % 16 == 0);
    std::vector<std::byte> record(static_cast<size_t>(*size), std::byte{0xEE});
    REQUIRE(encoder.encode(packed, record));
    std::vector<std::byte> decoded;
    CHECK_FALSE(decode_rans(record, table, bytes, decoded));
    CHECK(decoded == packed);
    CHECK(record == encode_rans(packed, table));
    // Any other size is noticed and nothing else is written.
    record.resize(record.size() + 16, std::byte{0xEE});
    CHECK_FALSE(encoder.encode(packed, record));
    CHECK(std::count(record.begin(), record.end(), std::byte{0}) == static_cast<ptrdiff_t>(record.size()));
  }
}

TEST_CASE("a symbol that was not counted ends the coding instead of looping") {
  const std::vector<std::byte> counted(1000, std::byte{0x11});
  const RansTable table = table_for(counted);
  RansEncoder encoder(table);
  CHECK(encoder.measure(counted));
  std::vector<std::byte> other = counted;
  other[500] = std::byte{0x17};
  CHECK_FALSE(encoder.measure(other));
  std::vector<std::byte> record(4096);
  CHECK_FALSE(encoder.encode(other, record));
}

TEST_CASE("streams are those of the plain division, whatever the frequencies") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    // Frequencies from 1 to nearly all, in any number of symbols.
    std::array<uint64_t, 16> histogram{};
    const size_t kinds = 1 + random() % 16;
    std::vector<uint32_t> symbols;
    for (size_t k = 0; k < kinds; ++k) {
      const uint32_t symbol = random() % 16;
      histogram[symbol] += 1 + random() % (1u << (random() % 20));
      symbols.push_back(symbol);
    }
    const RansTable table = rans_table(histogram);
    std::vector<std::byte> packed(1 + random() % 2000);
    for (auto& b : packed)
      b = static_cast<std::byte>(symbols[random() % kinds] | symbols[random() % kinds] << 4);
    const auto record = encode_rans(packed, table);
    REQUIRE_FALSE(record.empty());
    // Stream by stream with the division of the specification.
    for (uint32_t stream = 0; stream < kRansStreams; stream += 17) {
      std::vector<std::byte> want;
      uint32_t x = 1u << 23;
      const uint64_t count = 2 * packed.size();
      for (uint64_t j = count; j-- > 0;) {
        if (j % kRansStreams != stream) continue;
        const uint32_t symbol =
            static_cast<uint32_t>(packed[static_cast<size_t>(j / 2)]) >> (4 * (j % 2)) & 15;
        const uint32_t f = table.freq[symbol];
        while (x >= (uint64_t{1} << 17) * f) {
          want.insert(want.begin(), static_cast<std::byte>(x & 255));
          x >>= 8;
        }
        x = (x / f << 14) + x % f + table.start[symbol];
      }
      for (int i = 0; i < 4; ++i, x >>= 8) want.insert(want.begin(), static_cast<std::byte>(x & 255));
      const auto at = [&](uint32_t i) { return load_le<uint32_t>(record.data() + 16 + 4 * i); };
      const auto begin = record.begin() + static_cast<ptrdiff_t>(kRansRecordHeader + at(stream));
      CHECK(std::vector<std::byte>(begin, begin + static_cast<ptrdiff_t>(at(stream + 1) - at(stream))) ==
            want);
    }
  }
}

TEST_CASE("the table's text is JSON with sorted keys that tells the table") {
  const RansTable table = table_for(skewed_nibbles(5000, 3));
  const std::string text = rans_table_text(table);
  const JsonDocument document = parse_json(text, JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  std::string keys;
  for (const auto& [key, value] : document.root.members) keys += key + " ";
  CHECK(keys == "M freq n_streams scale_bits slot_to_symbol_b64 start table_crc32 table_id ");
  CHECK(document.root.integer("M") == 16384);
  CHECK(document.root.string("table_crc32") == rans_table_crc(table));
  REQUIRE(document.root.find("freq")->elements.size() == 16);
  for (size_t s = 0; s < 16; ++s)
    CHECK(document.root.find("freq")->elements[s].as_integer() == static_cast<int64_t>(table.freq[s]));
}

TEST_CASE("a manifest names what it does not know as null") {
  RansManifestShard shard{.file = "out-rans-00000.safetensors", .bytes = 7, .sha256 = "ab"};
  shard.records["w"] = "cd";
  CHECK(rans_manifest_text("00ff", std::vector{shard}) ==
        "{\n \"format\": \"int4-rans256-g0\",\n \"n_shards\": 1,\n \"n_weight_tensors\": 1,\n \"shards\": [\n"
        "  {\n   \"bytes\": 7,\n   \"file\": \"out-rans-00000.safetensors\",\n   \"records\": {\n"
        "    \"w\": \"cd\"\n   },\n   \"sha256\": \"ab\",\n   \"source\": null,\n   \"weight_tensors\": 1\n  "
        "}\n"
        " ],\n \"table_crc32\": \"00ff\"\n}");
}
