#include "lint/tree.h"

#include <algorithm>

#include "lint/file_names.h"

namespace tftf {
namespace {

// The folder part with its final '/', empty at the top.
std::string_view folder_part(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash + 1);
}

}  // namespace

Tree::Tree(LintInput given) : input(std::move(given)) {
  for (uint32_t i = 0; i < input.entries.size(); ++i) {
    const LintEntry& entry = input.entries[i];
    if (entry.is_folder) continue;
    TreeFile& file = files.emplace_back();
    file.entry = i;
    file.path = entry.path;
    file.name = file.path.substr(folder_part(file.path).size());
    file.size = entry.size;
    file.unreadable = entry.unreadable;
  }
  std::sort(files.begin(), files.end(), [](const TreeFile& a, const TreeFile& b) { return a.path < b.path; });

  // Folders in byte order of their paths; the host need not list those that files imply.
  std::vector<std::string> paths = {""};
  auto add_folder = [&](std::string_view path) {
    for (; !path.empty(); path = folder_part(path.substr(0, path.size() - 1))) {
      if (!by_folder_.emplace(std::string(path), 0).second) break;
      paths.emplace_back(path);
    }
  };
  by_folder_.emplace("", 0);
  for (const LintEntry& entry : input.entries)
    if (entry.is_folder) add_folder(entry.path + "/");
  for (const TreeFile& file : files) add_folder(folder_part(file.path));
  std::sort(paths.begin(), paths.end());
  for (std::string& path : paths) {
    const auto number = static_cast<uint32_t>(folders.size());
    by_folder_[path] = number;
    if (!path.empty())
      folders[folder_of(std::string_view(path).substr(0, path.size() - 1))].folders.push_back(number);
    folders.emplace_back().path = std::move(path);
  }
  for (const LintEntry& entry : input.entries)
    if (entry.is_folder) folders[by_folder_.at(entry.path + "/")].unreadable = entry.unreadable;

  by_path_.reserve(files.size());
  for (uint32_t i = 0; i < files.size(); ++i) {
    by_path_.emplace(files[i].path, i);
    folders[folder_of(files[i].path)].files.push_back(i);
  }
}

uint32_t Tree::folder_of(std::string_view path) { return by_folder_.at(std::string(folder_part(path))); }

std::optional<uint32_t> Tree::find(std::string_view path) const {
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return std::nullopt;
  return found->second;
}

const TreeFile* Tree::file_in(const TreeFolder& folder, std::string_view name) const {
  const auto found = by_path_.find(folder.path + std::string(name));
  return found == by_path_.end() ? nullptr : &files[found->second];
}

std::optional<std::string_view> Tree::find_other_case(std::string_view path) const {
  if (!by_folded_path_) {
    by_folded_path_.emplace();
    for (uint32_t i = 0; i < files.size(); ++i) by_folded_path_->emplace(fold_case(files[i].path), i);
  }
  const auto found = by_folded_path_->find(fold_case(path));
  if (found == by_folded_path_->end()) return std::nullopt;
  return files[found->second].path;
}

const TreeFolder* Tree::find_folder(std::string_view path) const {
  const auto found = by_folder_.find(std::string(path) + "/");
  return found == by_folder_.end() ? nullptr : &folders[found->second];
}

}  // namespace tftf
