// A folder of files as one fuzz input: for each file its path, kNameEnd and its content, files apart by kFileEnd
// (tests/tools/pack_folders.py writes seeds of this form). Paths that no folder could hold are left out.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tftf::fuzz {

inline constexpr std::string_view kNameEnd = "\x1d";
inline constexpr std::string_view kFileEnd = "\x1c\x1c\x1c\x1c";

struct PackedFile {
  std::string path;
  std::string_view content;
};

inline bool is_plain_path(std::string_view path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos)
      return false;
    begin = end + 1;
  }
  return true;
}

// The folders that a path lies in, without the outermost.
inline std::vector<std::string> folders_of(std::string_view path) {
  std::vector<std::string> folders;
  for (size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1))
    folders.emplace_back(path.substr(0, at));
  return folders;
}

inline std::vector<PackedFile> unpack_folder(std::string_view packed) {
  std::vector<PackedFile> files;
  std::set<std::string> file_paths;
  std::set<std::string> folder_paths;
  while (!packed.empty()) {
    const size_t end = std::min(packed.find(kFileEnd), packed.size());
    const std::string_view file = packed.substr(0, end);
    packed.remove_prefix(std::min(end + kFileEnd.size(), packed.size()));
    const size_t name_end = file.find(kNameEnd);
    if (name_end == std::string_view::npos) continue;
    std::string path(file.substr(0, name_end));
    if (!is_plain_path(path) || file_paths.contains(path) || folder_paths.contains(path)) continue;
    bool blocked = false;
    for (const std::string& folder : folders_of(path)) blocked = blocked || file_paths.contains(folder);
    if (blocked) continue;
    for (std::string& folder : folders_of(path)) folder_paths.insert(std::move(folder));
    file_paths.insert(path);
    files.push_back({std::move(path), file.substr(name_end + kNameEnd.size())});
  }
  return files;
}

}  // namespace tftf::fuzz
