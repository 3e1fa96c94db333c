#include "tftf/checkpoint/lone_shard.h"

#include <algorithm>

#include "tftf/base/escape.h"

namespace tftf {

bool may_index(const FileEntry& file) {
  constexpr std::string_view kEnd = ".safetensors.index.json";
  return file.regular && file.name.size() >= kEnd.size() &&
         std::string_view(file.name).substr(file.name.size() - kEnd.size()) == kEnd;
}

std::optional<std::string> lone_shard_warning(const ModelListing& listing, std::string_view index_name,
                                              std::string_view index_text) {
  if (listing.kind != ModelListing::Kind::kFile) return std::nullopt;
  const JsonDocument document = parse_json(index_text, JsonDialect::kPython);
  const JsonValue* map = document.root.get("weight_map");
  if (map == nullptr) return std::nullopt;
  const bool named = std::any_of(map->members.begin(), map->members.end(), [&](const auto& member) {
    return member.second.is_string() && member.second.text == listing.main;
  });
  if (!named) return std::nullopt;
  return quote_name(listing.given) + " is one shard of the model that " + quote_name(index_name) +
         " beside it describes; only this shard is read.";
}

}  // namespace tftf
