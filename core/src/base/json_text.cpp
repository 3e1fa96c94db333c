#include "tftf/base/json_text.h"

#include <cmath>
#include <string_view>

#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint64_t kMaxSafeInteger = (uint64_t{1} << 53) - 1;

// Position of the next surrogate in its three-byte encoding (base/json_reader.h, kPython), which nlohmann-json takes for
// malformed UTF-8.
size_t find_surrogate(std::string_view text, size_t from) {
  for (size_t at = text.find('\xED', from); at != std::string_view::npos; at = text.find('\xED', at + 1)) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    if (byte(at + 1) >= 0xA0 && byte(at + 1) <= 0xBF && byte(at + 2) >= 0x80 && byte(at + 2) <= 0xBF)
      return at;
  }
  return std::string_view::npos;
}

bool has_surrogate(const OrderedJson& value) {
  if (value.is_string()) return find_surrogate(value.get_ref<const std::string&>(), 0) != std::string::npos;
  if (!value.is_structured()) return false;
  for (const auto& item : value.items()) {
    if (value.is_object() && find_surrogate(item.key(), 0) != std::string::npos) return true;
    if (has_surrogate(item.value())) return true;
  }
  return false;
}

// `text` with each surrogate as `mark` and four hexadecimal digits.
std::string marked(std::string_view text, std::string_view mark) {
  std::string out;
  size_t at = 0;
  for (size_t next = find_surrogate(text, 0); next != std::string_view::npos;
       next = find_surrogate(text, at)) {
    out += text.substr(at, next - at);
    const uint32_t unit = 0xD000u | (static_cast<uint32_t>(text[next + 1] & 0x3F) << 6) |
                          static_cast<uint32_t>(text[next + 2] & 0x3F);
    out += mark;
    for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(unit >> shift) & 15];
    at = next + 3;
  }
  return out += text.substr(at);
}

OrderedJson marked(const OrderedJson& value, std::string_view mark) {
  if (value.is_string()) return marked(std::string_view(value.get_ref<const std::string&>()), mark);
  if (!value.is_structured()) return value;
  OrderedJson out = value.is_object() ? OrderedJson::object() : OrderedJson::array();
  for (const auto& item : value.items()) {
    if (value.is_object())
      out[marked(std::string_view(item.key()), mark)] = marked(item.value(), mark);
    else
      out.push_back(marked(item.value(), mark));
  }
  return out;
}

std::string dumped(const OrderedJson& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// What changes how a terminal or an editor shows what stands around it.
bool is_escaped(uint32_t c) {
  return (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

// Outside of strings JSON is ASCII, so that the whole text can be gone through at once.
std::string with_escapes(std::string text) {
  constexpr char kFirstBytes[] = "\x7F\xC2\xD8\xE2";
  size_t at = text.find_first_of(kFirstBytes);
  if (at == std::string::npos) return text;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find_first_of(kFirstBytes, at)) {
    const CodePoint point = code_point_at(text, at);
    if (point.valid && is_escaped(point.value)) {
      out.append(text, done, at - done);
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(point.value >> shift) & 15];
      done = at + point.length;
    }
    at += point.length;
  }
  return out.append(text, done);
}

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
  std::string text = dumped(value);
  if (!has_surrogate(value)) return with_escapes(std::move(text));
  // A private-use character that the document does not hold stands for the backslash and the u.
  std::string mark;
  for (uint32_t code_point = 0xF0000; mark.empty() || text.find(mark) != std::string::npos; ++code_point) {
    mark.clear();
    append_utf8(mark, code_point);
  }
  text = dumped(marked(value, mark));
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
    text.replace(at, mark.size(), "\\u");
  return with_escapes(std::move(text));
}

std::string json_ascii_string(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace tftf
