#include "checkpoint/file_names.h"

namespace tftf::names {
namespace {

constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index";
constexpr std::string_view kJson = ".json";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool cut_suffix(std::string_view& text, std::string_view suffix) {
  if (text.size() < suffix.size() || text.substr(text.size() - suffix.size()) != suffix) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// ".VARIANT" at the end.
std::optional<std::string_view> cut_variant(std::string_view& text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == text.size()) return std::nullopt;
  const std::string_view variant = text.substr(dot + 1);
  text = text.substr(0, dot);
  return variant;
}

// PREFIX-NNNNN-of-TTTTT.
std::optional<NumberedShard> parse_numbers(std::string_view text) {
  constexpr std::string_view kForm = "-NNNNN-of-TTTTT";
  if (text.size() < kForm.size()) return std::nullopt;
  NumberedShard shard;
  shard.prefix = text.substr(0, text.size() - kForm.size());
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = text[shard.prefix.size() + i];
    const bool number = kForm[i] == 'N' || kForm[i] == 'T';
    if (number ? !is_digit(c) : c != kForm[i]) return std::nullopt;
    if (!number) continue;
    uint32_t& value = kForm[i] == 'N' ? shard.number : shard.total;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return shard;
}

bool has_control_character(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    // U+0080..009F are C2 80..9F.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
  }
  return false;
}

// SCHEME:/, where a scheme has two characters or more.
bool is_url(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && (is_letter(text[at]) || (at > 0 && (is_digit(text[at]) || text[at] == '+' ||
                                                                 text[at] == '-' || text[at] == '.'))))
    ++at;
  return at >= 2 && text.substr(at, 2) == ":/";
}

}  // namespace

bool is_weight_file(std::string_view name) { return cut_suffix(name, kWeights); }

bool is_index(std::string_view name) {
  if (!cut_suffix(name, kJson)) return false;
  std::string_view stem = name;
  if (cut_suffix(stem, kIndex)) return true;
  return cut_variant(name) && cut_suffix(name, kIndex);
}

std::optional<NumberedShard> parse_numbered_shard(std::string_view name) {
  if (!cut_suffix(name, kWeights)) return std::nullopt;
  if (auto shard = parse_numbers(name)) return shard;
  const auto variant = cut_variant(name);
  if (!variant) return std::nullopt;
  auto shard = parse_numbers(name);
  if (shard) shard->variant = *variant;
  return shard;
}

std::optional<std::string_view> unsafe_reason(std::string_view shard) {
  if (shard.empty()) return "it is empty";
  if (shard[0] == '/') return "it is absolute";
  if (shard.find('\\') != std::string_view::npos) return "it has a backslash";
  if (has_control_character(shard)) return "it has a control character";
  if (is_url(shard)) return "it is a URL";
  if (shard.size() >= 2 && is_letter(shard[0]) && shard[1] == ':') return "it has a drive letter";
  for (size_t begin = 0; begin <= shard.size();) {
    const size_t end = std::min(shard.find('/', begin), shard.size());
    if (shard.substr(begin, end - begin) == "..") return "it leaves the folder";
    begin = end + 1;
  }
  if (clean_path(shard).empty() || shard.back() == '/') return "it is a folder";
  return std::nullopt;
}

std::string clean_path(std::string_view shard) {
  std::string clean;
  for (size_t begin = 0; begin <= shard.size();) {
    const size_t end = std::min(shard.find('/', begin), shard.size());
    const std::string_view part = shard.substr(begin, end - begin);
    if (!part.empty() && part != ".") {
      if (!clean.empty()) clean += '/';
      clean += part;
    }
    begin = end + 1;
  }
  return clean;
}

}  // namespace tftf::names
