#include "tftf/base/size_text.h"

#include <array>
#include <optional>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// Multiplier of a suffix (lower case, no spaces), nothing when unknown.
std::optional<uint64_t> unit(std::string_view suffix) {
  if (suffix.empty() || suffix == "b") return 1;
  constexpr std::string_view kLetters = "kmgtp";
  const size_t power = kLetters.find(suffix[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = suffix.substr(1);
  uint64_t base = 0;
  if (rest.empty() || rest == "b") base = 1000;
  if (rest == "ib" || rest == "i") base = 1024;
  if (base == 0) return std::nullopt;
  uint64_t value = 1;
  for (size_t i = 0; i <= power; ++i) value *= base;
  return value;
}

Error bad_size(std::string_view text, std::string_view why) {
  return Error{.code = ErrorCode::kUsage,
               .message = quote_name(text) + " is not a size: " + std::string(why) + ".",
               .expected = "bytes or a number with a suffix such as 5GB or 5GiB",
               .found = std::string(text)};
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  size_t at = 0;
  std::optional<uint64_t> whole = 0;
  const auto digit = [&] { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  if (!digit()) return bad_size(text, "it must begin with digits");
  for (; digit() && whole; ++at) {
    whole = checked_mul(*whole, 10);
    if (whole) whole = checked_add(*whole, static_cast<uint64_t>(text[at] - '0'));
  }
  if (!whole) return bad_size(text, "it is beyond 2^64-1 bytes");
  uint64_t fraction = 0, scale = 1;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digit()) return bad_size(text, "digits must follow the point");
    for (; digit(); ++at) {
      if (scale >= 1'000'000) return bad_size(text, "more than six digits follow the point");
      fraction = fraction * 10 + static_cast<uint64_t>(text[at] - '0');
      scale *= 10;
    }
  }
  while (at < text.size() && text[at] == ' ') ++at;
  std::string suffix;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    suffix += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const std::optional<uint64_t> factor = unit(suffix);
  if (!factor) return bad_size(text, "its unit is unknown");
  const auto big = checked_mul(*whole, *factor);
  // fraction < scale <= 10^6, factor <= 2^50: split so that nothing overflows.
  const uint64_t small = fraction * (*factor / scale) + fraction * (*factor % scale) / scale;
  const auto sum = big ? checked_add(*big, small) : std::nullopt;
  if (!sum) return bad_size(text, "it is beyond 2^64-1 bytes");
  return *sum;
}

std::string size_text(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  uint64_t divisor = 1024;
  size_t u = 0;
  while (u + 1 < kUnits.size() && bytes / divisor >= 1024) divisor *= 1024, ++u;
  const uint64_t whole = bytes / divisor;
  return ratio_text(bytes, divisor, whole >= 100 ? 1 : 2) + " " + std::string(kUnits[u]);
}

std::string grouped_digits(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string ratio_text(uint64_t value, uint64_t divisor, uint32_t decimals) {
  uint64_t whole = value / divisor, rest = value % divisor;
  // Long division digit by digit: no floating point, the same text on every host.
  std::string digits;
  for (uint32_t i = 0; i < decimals; ++i) {
    digits += static_cast<char>('0' + static_cast<int>(rest * 10 / divisor));
    rest = rest * 10 % divisor;
  }
  const uint64_t last = decimals == 0 ? whole : static_cast<uint64_t>(digits.back() - '0');
  const bool more_than_half = rest > divisor - rest, half = rest == divisor - rest;
  if (more_than_half || (half && last % 2 == 1)) {
    size_t at = digits.size();
    while (at > 0 && digits[at - 1] == '9') digits[--at] = '0';
    if (at > 0) {
      ++digits[at - 1];
    } else {
      ++whole;
    }
  }
  return std::to_string(whole) + (decimals > 0 ? "." + digits : "");
}

}  // namespace tftf
