#include "tftf_native/lint_tree.h"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "lint_file.h"
#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Ours: temporary outputs and journals.
bool is_left_behind(std::string_view name) {
  return ends_with(name, ".tftf-part") || ends_with(name, ".tftf-journal");
}

// The path without links, "." and "..", or nothing.
std::optional<std::string> resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(retry([&] { return ::realpath(path.c_str(), nullptr); }),
                                                    std::free);
  if (!real) return std::nullopt;
  return std::string(real.get());
}

bool is_inside(const std::string& path, const std::string& folder) {
  return folder == "/" || (path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
                           path[folder.size()] == '/');
}

// The hub cache entry that a resolved path lies in: up to the innermost component models--…
std::optional<std::string> hub_entry(const std::string& path) {
  size_t at = path.rfind("/models--");
  if (at == std::string::npos) return std::nullopt;
  return path.substr(0, std::min(path.find('/', at + 1), path.size()));
}

class Walk {
 public:
  Walk(LintTree& tree, std::string root) : tree_(tree), root_(std::move(root)) {}

  // Everything below the root; 0, or the error that kept even the root from being listed. A stack instead of
  // recursion: folders may be nested deeper than the call stack allows.
  int run() {
    std::vector<std::string> folders = {""};
    while (!folders.empty()) {
      const std::string folder = std::move(folders.back());
      folders.pop_back();
      std::vector<std::string> names;
      if (const int error = list(root_ + "/" + folder, names); error != 0) {
        if (folder.empty()) return error;
        entry_of(folder)->unreadable = error_phrase(error);
        continue;
      }
      std::sort(names.begin(), names.end());
      for (const std::string& name : names) {
        const std::string path = folder.empty() ? name : folder + "/" + name;
        if (visit(path)) folders.push_back(path);
      }
    }
    sort_entries();
    std::sort(tree_.skipped_links.begin(), tree_.skipped_links.end());
    return 0;
  }

 private:
  // 0, or the error's number.
  static int list(const std::string& folder, std::vector<std::string>& names) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(retry([&] { return ::opendir(folder.c_str()); }),
                                                     ::closedir);
    if (!stream) return errno;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) return errno;
      const std::string name = entry->d_name;
      if (name != "." && name != ".." && !is_left_behind(name)) names.push_back(name);
    }
  }

  // Adds what is there; true for a folder to go into.
  bool visit(const std::string& path) {
    const std::string full = root_ + "/" + path;
    struct stat info {};
    if (retry([&] { return ::lstat(full.c_str(), &info); }) != 0) {
      if (errno != ENOENT) add(path, false, 0, error_phrase(errno), full);
      return false;
    }
    if (S_ISLNK(info.st_mode)) {
      follow(path, full);
      return false;
    }
    if (S_ISDIR(info.st_mode)) {
      add(path, true, 0, "", full);
      return true;
    }
    add_file(path, full, info);
    return false;
  }

  void follow(const std::string& path, const std::string& full) {
    const std::optional<std::string> target = resolved(full);
    const std::optional<std::string> hub = hub_entry(root_);
    struct stat info {};
    const bool near = target && (is_inside(*target, root_) || (hub && is_inside(*target, *hub)));
    if (near && retry([&] { return ::lstat(target->c_str(), &info); }) == 0 && !S_ISDIR(info.st_mode))
      return add_file(path, *target, info);
    tree_.skipped_links.push_back(path);
  }

  void add_file(const std::string& path, const std::string& full, const struct stat& info) {
    const bool regular = S_ISREG(info.st_mode);
    add(path, false, regular ? static_cast<uint64_t>(info.st_size) : 0, regular ? "" : kNotRegular, full);
  }

  void add(const std::string& path, bool is_folder, uint64_t size, std::string unreadable,
           const std::string& full) {
    tree_.input.entries.push_back({path, is_folder, size, std::move(unreadable)});
    tree_.paths.push_back(full);
  }

  LintEntry* entry_of(const std::string& path) {
    const auto found = std::find_if(tree_.input.entries.rbegin(), tree_.input.entries.rend(),
                                    [&](const LintEntry& entry) { return entry.path == path; });
    return &*found;
  }

  void sort_entries() {
    std::vector<size_t> order(tree_.paths.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return tree_.input.entries[a].path < tree_.input.entries[b].path; });
    std::vector<LintEntry> entries;
    std::vector<std::string> paths;
    for (size_t i : order) {
      entries.push_back(std::move(tree_.input.entries[i]));
      paths.push_back(std::move(tree_.paths[i]));
    }
    tree_.input.entries = std::move(entries);
    tree_.paths = std::move(paths);
  }

  LintTree& tree_;
  std::string root_;
};

Error path_error(const std::string& path, std::string_view what) {
  return {.code = ErrorCode::kUsagePath,
          .message = quote_name(path) + " " + std::string(what) + ".",
          .file = path};
}

// A PATH that is one file, or cannot be read at all.
LintTree lone_entry(LintTree tree, const std::string& path, std::string unreadable) {
  const size_t end =
      path.find_last_not_of('/') == std::string::npos ? path.size() : path.find_last_not_of('/') + 1;
  const size_t slash = path.rfind('/', end - 1);
  const size_t begin = slash == std::string::npos || slash + 1 >= end ? 0 : slash + 1;
  tree.input.main = path.substr(begin, end - begin);
  tree.input.entries = {{tree.input.main, false, 0, std::move(unreadable)}};
  tree.paths = {path};
  return tree;
}

}  // namespace

Result<LintTree> read_lint_tree(const std::string& path) {
  LintTree tree;
  tree.input.given = path;
  struct stat info {};
  if (path.empty()) return path_error(path, "is no path");
  const int error = retry([&] { return ::stat(path.c_str(), &info); }) == 0 ? 0 : errno;
  if (error == ENOENT || error == ENOTDIR) return path_error(path, "does not exist");
  if (error == 0 && S_ISDIR(info.st_mode)) {
    const std::optional<std::string> root = resolved(path);
    if (!root) return path_error(path, "cannot be resolved");
    if (const int reason = Walk(tree, *root).run(); reason != 0)
      return lone_entry(std::move(tree), path, error_phrase(reason));
    return tree;
  }
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (error == 0 && S_ISREG(info.st_mode) && is_index_name(name)) {
    const std::optional<std::string> root =
        resolved(slash == std::string::npos ? "." : path.substr(0, slash + 1));
    if (!root) return path_error(path, "cannot be resolved");
    if (const int reason = Walk(tree, *root).run(); reason != 0)
      return lone_entry(std::move(tree), path, error_phrase(reason));
    const auto main = std::find_if(tree.input.entries.begin(), tree.input.entries.end(),
                                   [&](const LintEntry& entry) { return entry.path == name; });
    // A link to somewhere else is named by the user, and so taken.
    if (main == tree.input.entries.end()) {
      tree.input.entries.push_back({name, false, static_cast<uint64_t>(info.st_size), ""});
      tree.paths.push_back(path);
    }
    tree.input.main = name;
    return tree;
  }
  if (error != 0) return lone_entry(std::move(tree), path, error_phrase(error));
  if (!S_ISREG(info.st_mode)) return lone_entry(std::move(tree), path, kNotRegular);
  tree = lone_entry(std::move(tree), path, "");
  tree.input.entries[0].size = static_cast<uint64_t>(info.st_size);
  return tree;
}

Result<LintTree> read_lint_folder(const std::string& path) {
  if (path.empty()) return path_error(path, "does not exist");
  const auto info = look_at_path(path);
  if (!info.ok()) return info.error();
  if (!*info) return path_error(path, "does not exist");
  if (!S_ISDIR((*info)->st_mode)) return path_error(path, "is not a folder");
  return read_lint_tree(path);
}

}  // namespace tftf
