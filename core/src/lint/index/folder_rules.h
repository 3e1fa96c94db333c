// Rules of one folder as a whole (spec lint-rules 4, those with {folder}, and the pipeline's index).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lint/index/index_rules.h"
#include "lint/tree.h"

namespace tftf {

// An index of a folder and the shards it names (empty when it is not usable).
struct FolderIndex {
  const TreeFile* file = nullptr;
  std::vector<ShardUse> shards;
};

// What indexes say about a file, parallel to Tree::files.
struct FileReferences {
  bool by_any = false;      // an index of its folder or of one above names it
  bool from_above = false;  // one above does
};

// IX018 to IX025 and ST090. `indexes`: of that folder, by name.
void check_folder(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                  const std::vector<FolderIndex>& indexes, const std::vector<FileReferences>& references);

// IX040: `index`, the one that decides the folder's weights (null: none), maps nothing. `model_type` as config.json has it.
void check_empty_index(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                       const TreeFile* index, std::string_view model_type);

// IX028 to IX031 by the folder's model_index.json, which was read.
void check_pipeline(Diagnostics& findings, const Tree& tree, const TreeFolder& folder, const TreeFile& file);

}  // namespace tftf
