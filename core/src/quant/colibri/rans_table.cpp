// The frequency table as its JSON text tells it.
#include <algorithm>

#include "tftf/base/base64.h"
#include "tftf/base/crc32.h"
#include "tftf/base/json_value.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kTableKeys[] = {
    "M", "freq", "n_streams", "scale_bits", "slot_to_symbol_b64", "start", "table_crc32", "table_id"};
constexpr uint64_t kMaxTableValues = 1000;

// 16 whole numbers below 2^32.
std::optional<std::array<uint32_t, 16>> sixteen(const JsonValue& value) {
  if (!value.is_array() || value.elements.size() != 16) return std::nullopt;
  std::array<uint32_t, 16> numbers{};
  for (size_t i = 0; i < 16; ++i) {
    const auto number = value.elements[i].as_integer();
    if (!number || *number < 0 || *number > int64_t{UINT32_MAX}) return std::nullopt;
    numbers[i] = static_cast<uint32_t>(*number);
  }
  return numbers;
}

}  // namespace

RansTableReading read_rans_table(std::string_view text) {
  const auto refuse = [](std::string_view reason, std::string detail) {
    return RansTableReading{std::nullopt, reason, std::move(detail)};
  };
  constexpr std::string_view kMalformed = "E_TABLE_MALFORMED";
  const JsonDocument document = parse_json(text, JsonDialect::kPython, kMaxTableValues);
  if (document.error) return refuse(kMalformed, "its text is not JSON: " + document.error->detail);
  const JsonValue& root = document.root;
  if (!root.is_object()) return refuse(kMalformed, "its text is not a JSON object");
  for (std::string_view key : kTableKeys)
    if (!root.find(key)) return refuse(kMalformed, std::string(key) + " is missing");
  const auto scale_bits = root.integer("scale_bits");
  if (!scale_bits || *scale_bits < 1 || *scale_bits > 15)
    return refuse("E_TABLE_SCALE", "scale_bits is " + root.find("scale_bits")->brief() + ", not 1 to 15");
  const int64_t total = int64_t{1} << *scale_bits;
  if (root.integer("M") != total)
    return refuse("E_TABLE_SCALE",
                  "M is " + root.find("M")->brief() + ", not 2^scale_bits = " + std::to_string(total));
  if (root.integer("n_streams") != int64_t{kRansStreams})
    return refuse(kMalformed, "n_streams is " + root.find("n_streams")->brief() + ", not 256");
  const auto freq = sixteen(*root.find("freq"));
  const auto start = sixteen(*root.find("start"));
  if (!freq || !start)
    return refuse(kMalformed, std::string(freq ? "start" : "freq") + " is not a list of 16 whole numbers");
  RansTable table;
  table.scale_bits = static_cast<uint32_t>(*scale_bits);
  table.freq = *freq;
  if (!complete_rans_table(table)) return refuse("E_TABLE_FREQ_SUM", "freq does not add up to M");
  if (table.start != *start) return refuse("E_TABLE_START", "start is not the running sum of freq");
  const auto coded = root.string("slot_to_symbol_b64");
  const auto slots = coded ? decode_base64(*coded) : std::nullopt;
  if (!slots) return refuse(kMalformed, "slot_to_symbol_b64 is not base64");
  if (slots->size() != 2 * table.slots.size())
    return refuse(kMalformed, "slot_to_symbol_b64 holds " + std::to_string(slots->size()) + " bytes, not " +
                                  std::to_string(2 * table.slots.size()));
  const std::string crc = crc32_hex(*slots);
  if (root.string("table_crc32") != crc)
    return refuse("E_TABLE_CRC", "table_crc32 is " + root.find("table_crc32")->brief() +
                                     ", that of the slots is \"" + crc + "\"");
  for (size_t i = 0; i < table.slots.size(); ++i)
    if (load_le<uint16_t>(slots->data() + 2 * i) != table.slots[i])
      return refuse("E_TABLE_SLOT",
                    "slot " + std::to_string(i) + " has another symbol than freq and start say");
  RansTableReading reading;
  reading.table = std::move(table);
  return reading;
}

}  // namespace tftf::colibri
