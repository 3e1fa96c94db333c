#include "checkpoint/file_names.h"

#include <algorithm>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index";
constexpr std::string_view kJson = ".json";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_url(std::string_view text) {
  size_t at = 0;
  if (text.empty() || !is_letter(text[0])) return false;
  while (at < text.size() && (is_letter(text[at]) || is_digit(text[at]) ||
                              std::string_view("+.-").find(text[at]) != std::string_view::npos))
    ++at;
  return at >= 2 && text.substr(at, 2) == ":/";
}

bool has_control(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    // U+0080..009F in UTF-8.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
  }
  return false;
}

}  // namespace

bool is_weight_name(std::string_view name) { return ends_with(name, kWeights); }

std::optional<IndexName> parse_index_name(std::string_view name) {
  if (!ends_with(name, kJson)) return std::nullopt;
  name.remove_suffix(kJson.size());
  if (ends_with(name, kIndex)) return IndexName{name.substr(0, name.size() - kIndex.size()), {}};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size() || !ends_with(name.substr(0, dot), kIndex))
    return std::nullopt;
  return IndexName{name.substr(0, dot - kIndex.size()), name.substr(dot + 1)};
}

std::optional<ShardName> parse_shard_numbers(std::string_view text) {
  constexpr std::string_view kForm = "-#####-of-#####";
  if (text.size() < kForm.size()) return std::nullopt;
  const std::string_view tail = text.substr(text.size() - kForm.size());
  ShardName name;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '#') {
      if (tail[i] != kForm[i]) return std::nullopt;
      continue;
    }
    if (!is_digit(tail[i])) return std::nullopt;
    uint32_t& value = i < 6 ? name.number : name.total;
    value = value * 10 + static_cast<uint32_t>(tail[i] - '0');
  }
  name.prefix = text.substr(0, text.size() - kForm.size());
  return name;
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  if (!ends_with(name, kWeights)) return std::nullopt;
  name.remove_suffix(kWeights.size());
  if (auto shard = parse_shard_numbers(name)) return shard;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  auto shard = parse_shard_numbers(name.substr(0, dot));
  if (shard) shard->variant = name.substr(dot + 1);
  return shard;
}

std::optional<ContainerName> parse_container_name(std::string_view name) {
  constexpr std::string_view kOut = "out-";
  constexpr size_t kDigits = 5;
  if (!starts_with(name, kOut) || !ends_with(name, kWeights)) return std::nullopt;
  name.remove_suffix(kWeights.size());
  const size_t dash = name.rfind('-');
  const std::string_view digits = name.substr(dash + 1);
  if (digits.size() != kDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  ContainerName container{name.substr(0, dash)};
  for (const char digit : digits)
    container.number = container.number * 10 + static_cast<uint32_t>(digit - '0');
  return container;
}

std::optional<std::string_view> unsafe_reason(std::string_view shard) {
  if (shard.empty()) return "empty";
  if (shard[0] == '/') return "absolute";
  if (shard.size() >= 2 && is_letter(shard[0]) && shard[1] == ':') return "drive letter";
  if (is_url(shard)) return "URL";
  if (shard.find('\\') != std::string_view::npos) return "backslash";
  if (has_control(shard)) return "control character";
  for (size_t at = 0; at <= shard.size();) {
    const size_t end = std::min(shard.find('/', at), shard.size());
    if (shard.substr(at, end - at) == "..") return "parent folder";
    at = end + 1;
  }
  return std::nullopt;
}

std::string shard_path(std::string_view folder, std::string_view shard) {
  std::string out(folder);
  for (size_t at = 0; at <= shard.size();) {
    const size_t end = std::min(shard.find('/', at), shard.size());
    const std::string_view part = shard.substr(at, end - at);
    if (!part.empty() && part != ".") {
      if (out.size() > folder.size()) out += '/';
      out += part;
    }
    at = end + 1;
  }
  return out;
}

}  // namespace tftf
