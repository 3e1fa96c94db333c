#include "lint/adapter/base_model.h"

#include <algorithm>
#include <set>

#include "lint/file_names.h"
#include "lint/header/header_facts.h"
#include "lint/index/index_rules.h"
#include "lint/other_prefixes.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

bool is_usable(const TreeFile* file) { return file && file->index && file->index->usable(); }

const TreeFile* find_index(const Tree& tree, const TreeFolder& folder) {
  if (!tree.input.main.empty()) {
    const std::optional<uint32_t> number = tree.find(tree.input.main);
    return number && is_usable(&tree.files[*number]) ? &tree.files[*number] : nullptr;
  }
  const TreeFile* usual = tree.file_in(folder, "model.safetensors.index.json");
  if (is_usable(usual)) return usual;
  for (uint32_t number : folder.files)
    if (is_usable(&tree.files[number])) return &tree.files[number];
  return nullptr;
}

// A path from its first component `layers` that a number follows; empty without one.
std::string_view from_layers(std::string_view path) {
  constexpr std::string_view kLayers = "layers.";
  for (size_t at = path.find(kLayers); at != std::string_view::npos; at = path.find(kLayers, at + 1)) {
    const std::string_view rest = path.substr(at + kLayers.size());
    if ((at == 0 || path[at - 1] == '.') && !rest.empty() && is_digit(rest[0])) return path.substr(at);
  }
  return {};
}

}  // namespace

CheckedFiles checked_files(const Tree& tree, const TreeFolder& folder) {
  CheckedFiles checked;
  checked.index = find_index(tree, folder);
  if (!checked.index) {
    for (uint32_t number : folder.files) {
      const TreeFile& file = tree.files[number];
      const bool checked_file = tree.input.main.empty() ? ends_with(file.name, ".safetensors") &&
                                                              !starts_with(file.name, "consolidated")
                                                        : file.path == tree.input.main;
      if (checked_file) checked.files.push_back(&file);
    }
    checked.named = !checked.files.empty();
    return checked;
  }
  for (const MappedTensor& entry : checked.index->index->map)
    if (entry.shard == kNotText) checked.incomplete = true;
  std::set<const TreeFile*> seen;
  for (const ShardUse& use : find_shards(tree, folder, *checked.index->index)) {
    if (!use.used()) continue;
    checked.named = true;
    if (!use.present()) {
      checked.incomplete = true;
    } else if (const TreeFile* file = &tree.files[*use.file]; seen.insert(file).second) {
      checked.files.push_back(file);
    }
  }
  return checked;
}

BaseModel::BaseModel(const Tree& tree) {
  const CheckedFiles checked = checked_files(tree, tree.folders.front());
  bool any = false;
  bool all = !checked.incomplete;
  for (const TreeFile* file : checked.files) {
    if (!file->readable()) {
      all = false;
      continue;
    }
    any = true;
    for (const TensorInfo& tensor : file->scan->header.tensors) {
      tensors_.emplace(tensor.name, &tensor);
      names_.push_back(tensor.name);
    }
    for (std::string_view name : unusable_entries(*file->scan)) names_.push_back(name);
    if (!all_entries_known(*file->scan)) all = false;
  }
  if (checked.index) {
    const IndexDocument& index = *checked.index->index;
    for (const MappedTensor& entry : index.map) names_.push_back(index.tensors.name(entry.name));
    any = any || !index.map.empty();
    all = true;
  }
  if (!any) problem_ = "it holds no readable .safetensors file and no usable index";
  complete_ = any && all;
  std::sort(names_.begin(), names_.end());
  if (const TreeFile* config = tree.file_in(tree.folders.front(), "config.json");
      config && config->has_text()) {
    const JsonDocument document = parse_json(config->text, JsonDialect::kPython);
    entry_ = known_model_entry(&document.root);
    if (entry_) layout_.emplace(*entry_);
  }
}

std::string BaseModel::find_in_layouts(std::string_view path) const {
  if (!layout_) return {};
  for (const NameLayout to : {NameLayout::kTransformers4, NameLayout::kTransformers5}) {
    std::string moved = layout_->convert(std::string(path) + ".", to).name;
    moved.pop_back();
    if (moved == path) continue;
    if (holds(moved)) return moved;
  }
  for (const NameLayout to : {NameLayout::kTransformers4, NameLayout::kTransformers5}) {
    const std::string weight = layout_->convert(std::string(path) + ".weight", to).name;
    const auto expert = parse_expert_name(entry_->experts(), weight);
    if (!expert || expert->what != ExpertName::What::kSplit) continue;
    const std::string container =
        std::string(expert->prefix) + std::string(expert->kind->path[expert->under]);
    if (find(container + "." + std::string(expert->kind->fused_down))) return container;
  }
  return {};
}

const TensorInfo* BaseModel::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

bool BaseModel::holds(std::string_view path) const {
  const std::string prefix = std::string(path) + ".";
  const auto at = std::lower_bound(names_.begin(), names_.end(), std::string_view(prefix));
  return at != names_.end() && starts_with(*at, prefix);
}

std::string BaseModel::find_elsewhere(std::string_view path) const {
  if (std::string other = find_in_layouts(path); !other.empty()) return other;
  for (std::string& other : other_prefixes(path))
    if (holds(other)) return std::move(other);
  const std::string_view wanted = from_layers(path);
  if (wanted.empty()) return {};
  if (!by_layer_) {
    by_layer_.emplace();
    for (const std::string_view name : names_) {
      const size_t dot = name.rfind('.');
      const std::string_view module = name.substr(0, dot == std::string_view::npos ? 0 : dot);
      const std::string_view tail = from_layers(module);
      if (tail.empty()) continue;
      const auto [at, fresh] = by_layer_->emplace(tail, module);
      if (!fresh && at->second != module) at->second = {};
    }
  }
  const auto found = by_layer_->find(wanted);
  return found == by_layer_->end() ? std::string() : std::string(found->second);
}

}  // namespace tftf
