// Reads what the rules need of a tree: headers, indexes, side files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lint/tree.h"
#include "tftf/lint/linter.h"

namespace tftf {

// Side files beyond this are refused as unreadable: no index or configuration is near it.
inline constexpr uint64_t kMaxSideFile = 256 * 1024 * 1024;

class TreeReader {
 public:
  // kInput: all that rules look at. kBase: the model alone.
  TreeReader(LintSource source, LintInput input, uint64_t max_header);

  Tree tree;

  std::vector<LintRequest> want();
  void supply(const LintRequest& request, Bytes bytes);
  void fail(const LintRequest& request, std::string reason);

 private:
  using Wanted = TreeFile::Wanted;
  void choose_files();
  void choose_folder_file(const TreeFolder& folder, TreeFile& file);
  void start(uint32_t number, Wanted wanted);
  void request(uint32_t number, ByteRange range);
  void advance_header(uint32_t number);
  void finish_text(uint32_t number, Bytes bytes);
  TreeFile& file_of(const LintRequest& request, uint32_t& number);

  LintSource source_;
  uint64_t max_header_;
  std::vector<LintRequest> ready_;
  std::vector<uint32_t> by_entry_;
};

}  // namespace tftf
