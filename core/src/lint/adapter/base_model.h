// The model that --base names, as the adapter rules see it: names and shapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lint/tree.h"
#include "tftf/checkpoint/layout_names.h"

namespace tftf {

// The weight files of a folder that stand for its model (spec lint-rules 5): those its index names
// (model.safetensors.index.json, else the first usable one), without one all .safetensors files but
// consolidated*.
struct CheckedFiles {
  const TreeFile* index = nullptr;
  std::vector<const TreeFile*> files;  // present, named .safetensors, each once
  bool named = false;                  // there is such a file, or the index names one
  bool incomplete = false;             // one is missing or cannot be named safely
};
CheckedFiles checked_files(const Tree& tree, const TreeFolder& folder);

class BaseModel {
 public:
  // `tree`: PATH a folder (its own files count, no subfolders), a weight file or an index.
  explicit BaseModel(const Tree& tree);

  // Why nothing can be compared with it.
  const std::optional<std::string>& problem() const { return problem_; }
  // Whether absent names are known to be absent.
  bool complete() const { return complete_; }
  const TensorInfo* find(std::string_view name) const;
  // Of all tensors, sorted.
  const std::vector<std::string_view>& names() const { return names_; }
  // Any tensor `path`.… is there.
  bool holds(std::string_view path) const;
  // Where else the module may be meant to be: the path in another layout of names, the experts that it is one of, the path
  // under another prefix that is there, else the only stored module
  // whose path ends in the same `layers.N.…`. Empty when there is none.
  std::string find_elsewhere(std::string_view path) const;

 private:
  std::string find_in_layouts(std::string_view path) const;

  std::optional<std::string> problem_;
  std::optional<ModelEntry> entry_;  // by its config.json
  std::optional<LayoutNames> layout_;
  bool complete_ = true;
  std::vector<std::string_view> names_;  // by bytes
  std::unordered_map<std::string_view, const TensorInfo*> tensors_;
  // `layers.N.…` → the one module that ends in it, empty when there are several. Filled at its first use.
  mutable std::optional<std::unordered_map<std::string_view, std::string_view>> by_layer_;
};

}  // namespace tftf
