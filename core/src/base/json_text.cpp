#include "tftf/base/json_text.h"

#include <cmath>

namespace tftf {
namespace {

constexpr uint64_t kMaxSafeInteger = (uint64_t{1} << 53) - 1;

}  // namespace

OrderedJson json_integer(uint64_t value) {
  if (value > kMaxSafeInteger) return std::to_string(value);
  return value;
}

OrderedJson json_integer(int64_t value) {
  if (value > static_cast<int64_t>(kMaxSafeInteger) || value < -static_cast<int64_t>(kMaxSafeInteger))
    return std::to_string(value);
  return value;
}

OrderedJson json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string json_text(const OrderedJson& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string json_ascii_string(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace tftf
