// The JSON reader: any text, both dialects; what the strict dialect accepts is compared with nlohmann-json.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "input.h"
#include "tftf/base/json_value.h"
#include "tftf/base/utf8.h"

namespace {

using tftf::fuzz::require;

using tftf::JsonDialect;
using tftf::JsonError;
using tftf::JsonValue;

// Ranges lie inside the text and inside the parent's.
void check_ranges(const JsonValue& value, uint64_t begin, uint64_t end) {
  require(begin <= value.begin && value.begin < value.end && value.end <= end);
  require(value.key_offsets.size() == value.members.size());
  for (const JsonValue& element : value.elements) check_ranges(element, value.begin, value.end);
  for (const auto& [key, member] : value.members) check_ranges(member, value.begin, value.end);
}

// Whether nlohmann-json accepts a text, but for numbers that no double holds, which it alone refuses.
class Acceptor final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    overflow = error.id == kNumberOverflow;
    return false;
  }
  bool overflow = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto strict = tftf::parse_json(text, JsonDialect::kStrict);
  const auto python = tftf::parse_json(text, JsonDialect::kPython);
  for (const auto* document : {&strict, &python}) {
    if (document->error)
      require(document->error->offset <= size);
    else
      check_ranges(document->root, 0, size);
  }
  if (!strict.error) require(!python.error);

  const bool depth = strict.error && strict.error->kind == JsonError::Kind::kDepth;
  // nlohmann-json skips a byte order mark and takes a zero byte for the end.
  if (depth || text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string_view::npos) return 0;
  Acceptor acceptor;
  const bool accepted = nlohmann::json::sax_parse(text, &acceptor);
  if (!acceptor.overflow) require(accepted == !strict.error);
  return 0;
}
