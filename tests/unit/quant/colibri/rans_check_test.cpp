#include "tftf/quant/colibri/rans_check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "quant/colibri/rans_frame.h"
#include "tftf/base/base64.h"
#include "tftf/base/crc32.h"
#include "tftf/base/json_text.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

using Record = std::vector<std::byte>;

std::optional<RansFailure> fed(const RansTable& table, Bytes record, const std::vector<size_t>& pieces) {
  RansRecordCheck check(table, record.size());
  size_t at = 0;
  for (size_t i = 0; at < record.size(); ++i) {
    const size_t count = std::min(pieces[i % pieces.size()], record.size() - at);
    check.feed(record.subspan(at, count));
    at += count;
  }
  return check.finish();
}

RansTable table_of(const std::vector<std::byte>& packed) {
  std::array<uint64_t, 16> histogram{};
  count_nibbles(packed, histogram);
  return rans_table(histogram);
}

OrderedJson table_json(const RansTable& table) {
  std::vector<std::byte> slots(2 * table.slots.size());
  for (size_t i = 0; i < table.slots.size(); ++i) slots[2 * i] = static_cast<std::byte>(table.slots[i]);
  OrderedJson json;
  json["M"] = table.slots.size();
  json["freq"] = table.freq;
  json["n_streams"] = 256;
  json["scale_bits"] = table.scale_bits;
  json["slot_to_symbol_b64"] = encode_base64(slots);
  json["start"] = table.start;
  json["table_crc32"] = crc32_hex(slots);
  json["table_id"] = "g0";
  return json;
}

}  // namespace

TEST_CASE("a record checked while it is read has the verdict of one decoded whole") {
  std::mt19937 random(20261129);
  for (size_t bytes : {1u, 2u, 127u, 128u, 129u, 3000u}) {
    Record packed(bytes);
    for (auto& b : packed) b = static_cast<std::byte>((random() % 5 + random() % 5) | (random() % 16) << 4);
    const RansTable table = table_of(packed);
    const Record good = encode_rans(packed, table);
    for (int i = 0; i < 600; ++i) {
      Record record = good;
      if (i > 0) {
        const size_t region = random() % 3;  // header, payload, anywhere
        const size_t from = region == 1 ? size_t{kRansRecordHeader} : 0;
        const size_t to = region == 0 ? size_t{kRansRecordHeader} : record.size();
        for (uint64_t edits = 1 + random() % 2; edits > 0; --edits)
          record[from + random() % (to - from)] ^= static_cast<std::byte>(1 << random() % 8);
        if (random() % 20 == 0) record.resize(random() % (record.size() + 40));
      }
      Record decoded;
      const auto whole = decode_rans(record, table, UINT64_MAX >> 30, decoded);
      const std::vector<size_t> pieces = {1 + random() % 7, 1 + random() % 300, 1 + random() % 5000};
      const auto streamed = fed(table, record, pieces);
      REQUIRE(whole.has_value() == streamed.has_value());
      if (!whole) {
        CHECK(encode_rans(decoded, table) == record);  // what is accepted is what the coder writes
        continue;
      }
      INFO(rans_fault_class(whole->fault) << " " << rans_fault_class(streamed->fault));
      CHECK(whole->fault == streamed->fault);
      CHECK(whole->detail == streamed->detail);
    }
  }
}

TEST_CASE("a first state that the coder cannot have left is found although it decodes") {
  RansTable table;
  for (uint32_t s = 0; s < 14; ++s) table.freq[s] = 8192u >> s;
  table.freq[14] = 1;
  REQUIRE(complete_rans_table(table));
  // Stream 0, last symbol to second as the coder does it; before the first symbol one byte is kept back, for which a
  // symbol of the right frequency must be chosen.
  std::vector<uint32_t> symbols = {0, 3, 1, 0, 5, 2};
  uint32_t x = kRansLowest;
  Record emitted;
  for (size_t k = symbols.size(); k-- > 1;) {
    const uint32_t f = table.freq[symbols[k]];
    while (x >= uint64_t{f} << 17) {
      emitted.push_back(static_cast<std::byte>(x & 255));
      x >>= 8;
    }
    x = (x / f << 14) + x % f + table.start[symbols[k]];
  }
  while (!(uint64_t{table.freq[symbols[0]]} << 17 <= x && x < uint64_t{table.freq[symbols[0]]} << 18))
    ++symbols[0];
  const uint32_t f = table.freq[symbols[0]];
  x = (x / f << 14) + x % f + table.start[symbols[0]];
  REQUIRE(x >= kRansHighest);
  for (int i = 0; i < 4; ++i, x >>= 8) emitted.push_back(static_cast<std::byte>(x & 255));
  std::reverse(emitted.begin(), emitted.end());

  Record packed(128 * symbols.size());
  for (size_t k = 0; k < symbols.size(); ++k) packed[128 * k] = static_cast<std::byte>(symbols[k]);
  const Record good = encode_rans(packed, table);
  Record decoded;
  REQUIRE_FALSE(decode_rans(good, table, packed.size(), decoded));
  const uint32_t old = load_le<uint32_t>(good.data() + 20);
  Record record(good.begin(), good.begin() + kRansRecordHeader);
  record.insert(record.end(), emitted.begin(), emitted.end());
  record.insert(record.end(), good.begin() + kRansRecordHeader + old, good.end());
  const uint32_t shift = old - static_cast<uint32_t>(emitted.size());
  for (uint32_t i = 1; i <= 256; ++i)
    store_le<uint32_t>(record.data() + 16 + 4 * i, load_le<uint32_t>(good.data() + 16 + 4 * i) - shift);
  record.resize((kRansRecordHeader + load_le<uint32_t>(record.data() + 16 + 4 * 256) + 15) / 16 * 16);
  const auto failure = decode_rans(record, table, packed.size(), decoded);
  REQUIRE(failure);
  CHECK(rans_fault_class(failure->fault) == "E_REENCODE_MISMATCH");
  CHECK(decoded == packed);  // it does decode
  CHECK(fed(table, record, {977})->fault == RansFault::kReencodeMismatch);
}

TEST_CASE("tables of every width: rare symbols, long streams, any pieces") {
  std::mt19937 random(15);
  for (uint32_t bits = 1; bits <= 15; ++bits)
    for (int skew = 0; skew < 3; ++skew) {
      RansTable table;
      table.scale_bits = bits;
      const uint32_t total = 1u << bits;
      const uint32_t symbols = std::min(16u, total);
      for (uint32_t s = 1; s < symbols; ++s) table.freq[s] = skew == 0 ? 1 : std::max(1u, total / 16);
      uint32_t rest = total;
      for (uint32_t s = 1; s < symbols; ++s) rest -= std::min(rest, table.freq[s]);
      table.freq[0] = rest;
      if (rest == 0 || !complete_rans_table(table)) continue;
      Record packed(20000);
      for (auto& b : packed) {
        const auto draw = [&] {
          return static_cast<uint32_t>(table.slots[random() % (skew == 2 ? total : std::max(1u, total / 2))]);
        };
        b = static_cast<std::byte>(draw() | draw() << 4);
      }
      const Record record = encode_rans(packed, table);
      INFO(bits << " " << skew);
      CHECK_FALSE(fed(table, record, {1 + random() % 3, 1 + random() % 60, 4096}));
      CHECK_FALSE(fed(table, record, {record.size()}));
      Record damaged = record;
      damaged[kRansRecordHeader + random() % (record.size() - kRansRecordHeader - 16)] ^= std::byte{0x10};
      Record decoded;
      const auto whole = decode_rans(damaged, table, packed.size(), decoded);
      const auto streamed = fed(table, damaged, {1 + random() % 60, 4096});
      REQUIRE(whole.has_value() == streamed.has_value());
      if (whole) CHECK(whole->fault == streamed->fault);
    }
}

TEST_CASE("symbols that cost no bits take no time, whatever number is claimed") {
  std::vector<std::byte> packed(128, std::byte{0x33});
  const RansTable table = table_of(packed);
  Record record = encode_rans(packed, table);
  CHECK_FALSE(fed(table, record, {64}));
  // 2^28 symbols from 1024 bytes of payload, the most that is believed.
  store_le<uint64_t>(record.data(), uint64_t{1024} << 18);
  store_le<uint64_t>(record.data() + 8, uint64_t{1024} << 17);
  CHECK_FALSE(fed(table, record, {64}));
  store_le<uint64_t>(record.data(), (uint64_t{1024} << 18) + 2);
  store_le<uint64_t>(record.data() + 8, (uint64_t{1024} << 17) + 1);
  CHECK(fed(table, record, {64})->fault == RansFault::kOversize);
}

TEST_CASE("a check that is not fed to its end does not pass") {
  std::vector<std::byte> packed(500, std::byte{0x37});
  const RansTable table = table_of(packed);
  const Record record = encode_rans(packed, table);
  for (size_t most : {size_t{0}, size_t{1055}, size_t{1056}, size_t{1500}}) {
    RansRecordCheck check(table, record.size());
    check.feed(Bytes(record).first(most));
    CHECK(check.finish()->fault == RansFault::kTruncated);
  }
  RansRecordCheck check(table, record.size());
  check.feed(Bytes(record).first(1056));
  CHECK(check.packed_bytes() == 500u);
}

TEST_CASE("tables: every class in the order of the checks") {
  std::vector<std::byte> packed(700);
  std::mt19937 random(3);
  for (auto& b : packed) b = static_cast<std::byte>(random() % 256);
  const OrderedJson good = table_json(table_of(packed));
  const RansTableReading read = read_rans_table(good.dump());
  REQUIRE(read.table);
  CHECK(read.table->freq == table_of(packed).freq);
  const auto reason = [&](const char* key, const OrderedJson& value) {
    OrderedJson json = good;
    json[key] = value;
    return std::string(read_rans_table(json.dump()).reason);
  };
  CHECK(reason("scale_bits", 0) == "E_TABLE_SCALE");
  CHECK(reason("scale_bits", 16) == "E_TABLE_SCALE");
  CHECK(reason("scale_bits", "14") == "E_TABLE_SCALE");
  CHECK(reason("scale_bits", 13) == "E_TABLE_SCALE");  // M does not fit it
  CHECK(reason("M", 1) == "E_TABLE_SCALE");
  CHECK(reason("n_streams", 128) == "E_TABLE_MALFORMED");
  CHECK(reason("freq", OrderedJson::array({1, 2})) == "E_TABLE_MALFORMED");
  CHECK(reason("freq", nullptr) == "E_TABLE_MALFORMED");
  OrderedJson freq = good["freq"];
  freq[0] = freq[0].get<int>() + 1;
  CHECK(reason("freq", freq) == "E_TABLE_FREQ_SUM");
  freq[0] = -1;
  CHECK(reason("freq", freq) == "E_TABLE_MALFORMED");
  OrderedJson start = good["start"];
  start[5] = 0;
  CHECK(reason("start", start) == "E_TABLE_START");
  CHECK(reason("slot_to_symbol_b64", "AA=A") == "E_TABLE_MALFORMED");
  CHECK(reason("slot_to_symbol_b64", "AAAA") == "E_TABLE_MALFORMED");
  CHECK(reason("table_crc32", "00000000") == "E_TABLE_CRC");
  auto slots = *decode_base64(good["slot_to_symbol_b64"].get<std::string>());
  slots[2] = std::byte{9};
  OrderedJson swapped = good;
  swapped["slot_to_symbol_b64"] = encode_base64(slots);
  CHECK(read_rans_table(swapped.dump()).reason == "E_TABLE_CRC");
  swapped["table_crc32"] = crc32_hex(slots);
  CHECK(read_rans_table(swapped.dump()).reason == "E_TABLE_SLOT");
  for (const auto& [key, value] : good.items()) {
    OrderedJson json = good;
    json.erase(key);
    CHECK(read_rans_table(json.dump()).reason == "E_TABLE_MALFORMED");
  }
  for (const char* text : {"", "[]", "{", "3", "{\"M\":"})
    CHECK(read_rans_table(text).reason == "E_TABLE_MALFORMED");
  CHECK(read_rans_table("{\"freq\":[" + std::string(100000, '[') + "]}").reason == "E_TABLE_MALFORMED");
}

TEST_CASE("manifests: what is not a list of shards with digests is malformed as a whole") {
  const RansManifest good(R"({"shards":[{"file":"a","sha256":"00","records":{"x":"11"}}]})");
  CHECK_FALSE(good.problem());
  REQUIRE(good.find("a"));
  CHECK(good.find("a")->records.at("x") == "11");
  CHECK_FALSE(good.find("b"));
  for (const char* text :
       {"", "[]", R"({"shards":3})", R"({"shards":[3]})", R"({"shards":[{"sha256":"00","records":{}}]})",
        R"({"shards":[{"file":"a","records":{}}]})",
        R"({"shards":[{"file":"a","sha256":"00","records":[]}]})",
        R"({"shards":[{"file":"a","sha256":"00","records":{"x":1}}]})",
        R"({"shards":[{"file":"a","sha256":"00","records":{}},{"file":"a","sha256":"00","records":{}}]})"}) {
    const RansManifest bad(text);
    CHECK(bad.problem());
    CHECK(bad.shards().empty());
  }
}

TEST_CASE("the coded shards of a folder are those of the coder, else all") {
  CHECK(choose_rans_shards(
            {"b.safetensors", "out-rans-00001.safetensors", "out-rans-00000.safetensors", "config.json"}) ==
        std::vector<std::string>{"out-rans-00000.safetensors", "out-rans-00001.safetensors"});
  CHECK(choose_rans_shards({"b.safetensors", "a.safetensors", "x.json"}) ==
        std::vector<std::string>{"a.safetensors", "b.safetensors"});
  CHECK(choose_rans_shards({"x.json"}).empty());
}
