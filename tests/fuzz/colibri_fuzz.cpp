// Stamps, the range coder's table and records, and the resolver: hostile texts and bytes end in a verdict, in bounded
// memory, and the two ways to read a record agree.
#include <algorithm>

#include "input.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/rans_encoder.h"
#include "tftf/quant/colibri/readings.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"

using namespace tftf;
using namespace tftf::colibri;
using tftf::fuzz::Input;
using tftf::fuzz::require;

namespace {

constexpr uint64_t kMostSymbols = 1 << 12;

RansTable any_table(Input& input) {
  std::array<uint64_t, 16> histogram{};
  for (uint64_t& count : histogram) count = input.byte();
  if (std::all_of(histogram.begin(), histogram.end(), [](uint64_t count) { return count == 0; }))
    histogram[3] = 1;
  return rans_table(histogram);
}

std::optional<RansFailure> check_in_pieces(const RansTable& table, Bytes record, size_t piece) {
  RansRecordCheck check(table, record.size());
  for (size_t at = 0; at < record.size(); at += piece)
    check.feed(record.subspan(at, std::min(piece, record.size() - at)));
  return check.finish();
}

void check_record(Input& input) {
  const RansTable table = any_table(input);
  const size_t piece = 1 + input.byte() * size_t{7};
  const uint8_t how = input.byte();
  std::vector<std::byte> record;
  if (how % 2 == 0) {  // a sound one with changes
    std::vector<std::byte> packed(1 + input.byte() * size_t{3});
    const std::string text = input.repeated(packed.size());
    for (size_t i = 0; i < packed.size(); ++i) {
      uint32_t nibbles[2] = {static_cast<uint8_t>(text[i]) & 15u, static_cast<uint8_t>(text[i]) >> 4 & 15u};
      for (uint32_t& nibble : nibbles)
        while (table.freq[nibble] == 0) nibble = (nibble + 1) % 16;
      packed[i] = static_cast<std::byte>(nibbles[0] | nibbles[1] << 4);
    }
    record = encode_rans(packed, table);
    require(!check_in_pieces(table, record, piece));
    for (int edits = how / 2 % 4; edits > 0; --edits) {
      const size_t at = input.byte() | static_cast<size_t>(input.byte()) << 8;
      record[at % record.size()] = static_cast<std::byte>(input.byte());
    }
  } else {
    const std::string text = input.text(1024);
    record.assign(as_bytes(text).begin(), as_bytes(text).end());
    record.resize(record.size() + kRansRecordHeader);
  }
  // Time is that of the symbols claimed, which is the format's; the fuzzer has none to lose.
  if (load_le<uint64_t>(record.data()) > kMostSymbols) return;
  std::vector<std::byte> packed;
  const auto whole = decode_rans(record, table, UINT64_MAX, packed);
  const auto streamed = check_in_pieces(table, record, piece);
  require(whole.has_value() == streamed.has_value());
  if (whole) require(whole->fault == streamed->fault);
  if (!whole && packed.size() * 2 == load_le<uint64_t>(record.data()))
    require(encode_rans(packed, table) == record);
}

void check_table(Input& input) {
  const RansTable table = any_table(input);
  std::string text = rans_table_text(table);
  const RansTableReading good = read_rans_table(text);
  require(good.table && good.table->freq == table.freq && good.table->slots == table.slots);
  for (int edits = 1 + input.byte() % 3; edits > 0; --edits) {
    const size_t at = input.byte() | static_cast<size_t>(input.byte()) << 8;
    text[at % text.size()] = static_cast<char>(input.byte());
  }
  const RansTableReading read = read_rans_table(text);
  require(read.table.has_value() == read.reason.empty());
  if (!read.table) return;
  uint64_t sum = 0;
  for (const uint32_t f : read.table->freq) sum += f;
  require(sum == uint64_t{1} << read.table->scale_bits && read.table->slots.size() == sum);
}

void check_texts(Input& input) {
  const std::string text = input.text(1024);
  read_rans_table(text);
  const RansManifest manifest(text);
  require(!manifest.problem() || manifest.shards().empty());
  StampMap stamps(8);
  const std::string second = input.text(1024);
  for (const std::string* one : {&text, &second})
    if (const auto refusal = stamps.ingest("f", one, false)) {
      require(!stamp_fault_class(refusal->fault).empty());
      break;
    }
  require(stamps.all().size() <= 9);
  if (stamps.all().size() > 8) return;
  // What was taken in is written and read back the same, unless a name is no text at all.
  const std::string written = stamp_text(stamps.all());
  StampMap again;
  if (!again.ingest("f", &written, false)) require(again.all().size() == stamps.all().size());
}

void check_sizes(Input& input) {
  Pair pair;
  for (uint64_t* number : {&pair.rows, &pair.columns, &pair.weight_bytes, &pair.scale_bytes}) {
    const uint8_t shift = input.byte() % 64;
    *number = (static_cast<uint64_t>(input.byte()) << 8 | input.byte()) << shift;
  }
  pair.routed = input.byte() % 2 != 0;
  const auto& format = all_formats()[input.byte() % all_formats().size()];
  if (input.byte() % 2 != 0) {  // sizes of a writer
    const auto bytes = weight_bytes(format.format, pair.rows, pair.columns);
    const auto count = scale_count(format.format, pair.rows, pair.columns, 1 + input.byte());
    if (bytes && count && *count < UINT64_MAX / 4) {
      pair.weight_bytes = *bytes;
      pair.scale_bytes = *count * 4;
    }
  }
  const Resolution plain = resolve(pair);
  require(plain.format.has_value() != plain.refusal.has_value());
  if (plain.format && pair.rows > 0 && pair.columns > 0) {
    const auto readings = possible_readings(pair.rows, pair.columns, pair.weight_bytes, pair.scale_bytes);
    require(std::any_of(readings.begin(), readings.end(),
                        [&](const Reading& reading) { return reading.format == *plain.format; }));
  }
  pair.stamp = std::string(format.name);
  const Resolution stamped = resolve(pair);
  if (stamped.format && !pair.routed) require(find_stamp(*pair.stamp) == stamped.format);
  if (pair.routed) require(stamped.format == plain.format);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  // A table has thousands of slots whatever its text: few inputs are about tables and records.
  const uint8_t kind = input.byte();
  if (kind == 0) {
    check_record(input);
  } else if (kind == 1) {
    check_table(input);
  } else if (kind % 2 == 0) {
    check_texts(input);
  } else {
    check_sizes(input);
  }
  return 0;
}
