// The rules of one index file (spec lint-rules 4, those with {file}).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "container/finding_list.h"
#include "lint/tree.h"

namespace tftf {

// A shard as an index names it.
struct ShardUse {
  // kForeign: not named .safetensors. kOtherCase: exists in other letter case only.
  enum class Status : uint8_t { kUnsafe, kForeign, kMissing, kOtherCase, kPresent };
  std::string_view name;
  Status status = Status::kPresent;
  std::string_view reason;  // kUnsafe
  std::optional<uint32_t>
      file;              // in Tree::files: the file meant (kPresent, kOtherCase; kForeign: of other case)
  uint64_t tensors = 0;  // mapped to it
  uint64_t offset = 0;   // of the first of their keys

  // False when only the earlier ones of equal keys name it.
  bool used() const { return tensors != 0; }
  bool present() const { return used() && status == Status::kPresent; }
};

// The shards that a usable index names, parallel to IndexDocument::shards. Nothing is opened.
std::vector<ShardUse> find_shards(const Tree& tree, const TreeFolder& folder, const IndexDocument& index);

// IX001 to IX007, IX009, IX027: the document alone.
void check_index_document(FindingList& findings, const TreeFile& file);

// IX008, IX010 to IX017, IX032, IX034: a usable index against its shards.
void check_index_shards(FindingList& findings, const Tree& tree, const IndexDocument& index,
                        const std::vector<ShardUse>& shards);

}  // namespace tftf
