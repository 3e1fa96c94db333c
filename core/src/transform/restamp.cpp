#include "restamp.h"

#include <algorithm>

#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf::transform {

Result<void> restamp(Stream& stream, const std::unordered_set<std::string>& gone,
                     const std::map<std::string, std::string, std::less<>>& added) {
  std::vector<const Shard*> shards;
  for (const Shard& shard : stream.checkpoint->shards) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  colibri::StampMap read;
  bool declared = false;
  for (const Shard* shard : shards) {
    const std::string* text = nullptr;
    for (const auto& [key, value] : shard->header.metadata) {
      if (key == colibri::kStampKey) text = &value;
      declared = declared || key == colibri::kDeclarationKey;
    }
    if (read.ingest(shard->name, text, false))
      break;  // what came before a fault still counts, as for its reader
  }
  const bool had = declared || !read.all().empty();
  if (!had && added.empty()) return {};
  std::map<std::string, std::string, std::less<>> stamps = added;
  for (const auto& [name, format] : read.all())
    if (gone.count(name) == 0) stamps.emplace(name, format);
  if (stamps.size() > colibri::kStampCap) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "The result would have " + grouped_digits(stamps.size()) +
                            " stamps, and a reader takes " + grouped_digits(colibri::kStampCap) +
                            " (stamp-cap); --exclude leaves weights as they are."};
  }
  stream.metadata[std::string(colibri::kStampKey)] = stamps.empty() ? "" : colibri::stamp_text(stamps);
  std::vector<std::string> formats;
  for (const auto& [name, format] : stamps) {
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) formats.push_back(format);
  }
  if (declared) {
    stream.metadata[std::string(colibri::kDeclarationKey)] =
        formats.empty() ? "" : colibri::declaration_text(std::move(formats));
  }
  return {};
}

}  // namespace tftf::transform
