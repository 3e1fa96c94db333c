// What lies below PATH, by folder, and what was read of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lint/colibri/reads.h"
#include "lint/index/index_document.h"
#include "tftf/lint/linter.h"

namespace tftf {

struct TreeFile {
  uint32_t entry = 0;     // in LintInput::entries
  std::string_view path;  // relative to PATH
  std::string_view name;  // without folders
  uint64_t size = 0;
  std::string unreadable;  // why it could not be read

  // What the runner reads of it.
  enum class Wanted : uint8_t { kNothing, kHeader, kText, kIndex };
  Wanted wanted = Wanted::kNothing;
  bool done = false;                     // answered, or failed
  std::unique_ptr<HeaderReader> reader;  // kHeader, while it is read
  std::optional<HeaderScan> scan;        // kHeader, when it was read
  std::string text;                      // kText, kIndex
  std::unique_ptr<IndexDocument> index;  // kIndex
  ColibriReads colibri;                  // kHeader: bytes of data that rules look at

  bool has_text() const {
    return (wanted == Wanted::kText || wanted == Wanted::kIndex) && done && unreadable.empty();
  }
  bool readable() const { return scan && scan->readable; }
  bool sound() const { return scan && scan->sound; }
};

struct TreeFolder {
  std::string path;               // "" for PATH itself, else "SUB/"
  std::vector<uint32_t> files;    // its own, in Tree::files, by name bytes
  std::vector<uint32_t> folders;  // direct subfolders, in Tree::folders
  std::string unreadable;         // why it could not be listed

  // As findings name it.
  std::string shown() const { return path.empty() ? "." : path; }
};

class Tree {
 public:
  explicit Tree(LintInput input);
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  LintInput input;
  std::vector<TreeFile> files;      // by path bytes
  std::vector<TreeFolder> folders;  // by path bytes; the first is PATH itself

  // By path relative to PATH.
  std::optional<uint32_t> find(std::string_view path) const;
  // A file of a folder by its name.
  const TreeFile* file_in(const TreeFolder& folder, std::string_view name) const;
  // The path of the one file that differs from `path` in the case of ASCII letters only (the first by bytes).
  std::optional<std::string_view> find_other_case(std::string_view path) const;
  // "SUB" or "SUB/SUB", without a final '/'.
  const TreeFolder* find_folder(std::string_view path) const;

 private:
  uint32_t folder_of(std::string_view path);

  std::unordered_map<std::string_view, uint32_t> by_path_;
  std::unordered_map<std::string, uint32_t> by_folder_;
  mutable std::optional<std::unordered_map<std::string, uint32_t>> by_folded_path_;
};

}  // namespace tftf
