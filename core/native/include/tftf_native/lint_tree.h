// The native host of the linter: what lies at a PATH, the linter's reads, the data pass on threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/lint/linter.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// One PATH as it was found, and how its entries are opened.
struct LintTree {
  LintInput input;
  std::vector<std::string> paths;            // parallel to input.entries: what to open; links are resolved
  std::vector<std::string> skipped_links{};  // that are not followed, below PATH
};

// Walks a PATH (spec lint-rules 2): a file is itself, an index file (is_index_name) brings its folder, a
// folder everything below it in the order of its names' bytes. Links are followed to files only, when these
// lie inside PATH or inside the same hub cache entry (a folder models--…); other links are left out and
// named. Nothing
// is opened but folders: FIFOs and devices become entries that cannot be read. What this program leaves
// behind itself (*.tftf-part, *.tftf-journal) is left out. kUsagePath when PATH does not exist.
Result<LintTree> read_lint_tree(const std::string& path);
// The same for a folder that must be one (--base): kUsagePath otherwise.
Result<LintTree> read_lint_folder(const std::string& path);

// Runs the linter over the tree, reading what it asks for and nothing else.
LintResult run_linter(const LintTree& tree, const LintTree* base, uint64_t max_header);

struct DataPassProgress {
  uint64_t done = 0;  // bytes of the stage at hand
  uint64_t total = 0;
  bool comparing = false;  // the second stage
};
struct DataPassOptions {
  uint32_t threads = 0;                                     // 0: as many as there are processors
  const KernelTable* kernels = nullptr;                     // null: the fastest
  std::function<void(const DataPassProgress&)> progress{};  // by the calling thread, ten times a second
  const std::atomic<bool>* stop = nullptr;                  // set: kInterrupted
};
// Reads the tensors of all sound files and appends the findings about their values to `result`, sorted in.
// Holds 1 MiB per thread and some 300 bytes per tensor.
Result<void> run_data_pass(const LintTree& tree, LintResult& result, const DataPassOptions& options);

}  // namespace tftf
