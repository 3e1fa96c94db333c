// Executes a plan with files and threads: parts under temporary names, journal, resume, and the order of
// syncs and renames that leaves either whole outputs or none (docs/architecture.md, "Writing").
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/plan/plan.h"
#include "tftf_native/byte_source.h"
#include "tftf_native/output_folder.h"

namespace tftf {

// One of Plan::inputs(), in the same order.
struct RunInput {
  std::string path{};
  // As it was when its header was read; another one now is kIoChanged. Nothing: whatever it is when the run
  // starts.
  std::optional<Fingerprint> seen{};
};

// Where the result goes.
struct OutputTarget {
  std::string path{};        // a folder, or with single_file the file's own path
  bool single_file = false;  // the plan has one output, which gets this name
  bool beside = false;       // a folder that may hold other things: only the plan's own names are refused
};

struct Progress {
  uint64_t done = 0;  // bytes: written ones, and in phases that only measure those read
  uint64_t total = 0;
  std::string_view tensor{};  // the one started last
  bool resumed = false;
};

struct ExecuteOptions {
  uint32_t threads = 0;                  // 0: as many as there are processors
  const KernelTable* kernels = nullptr;  // null: the fastest of this machine
  bool resume = true;                    // false: what an earlier run left is removed first
  bool overwrite = false;
  std::string input_folder{};  // of the model; empty when a lone file was given
  std::string side_folder{};   // where copied side files come from
  // Files beside the shards that the plan was made from, as they were then: another one now is kIoChanged, as for
  // the inputs themselves.
  std::vector<SeenFile> sides{};
  // Folders and files that the run reads besides: nothing is written into such a folder, or over such a file.
  std::vector<std::string> also_read{};
  // A small file that is made from the outputs once they are durable under their final names, the last of all. It
  // belongs to the run: one that is stopped before it continues there. Null: none.
  std::string last_name{};
  std::function<Result<std::string>()> last_text{};
  std::function<void(const Progress&)>
      progress{};                           // called by the calling thread, ten times a second and at the end
  const std::atomic<bool>* stop = nullptr;  // set: the run ends with kInterrupted, its journal flushed
  std::chrono::milliseconds journal_interval{500};
  uint64_t journal_bytes = 256 << 20;
  uint32_t journal_rest = 10;  // a flush is followed by at least so many times its own duration
  std::function<Result<std::shared_ptr<ByteSource>>(const RunInput&)>
      open_input{};  // null: open_file_source()
};

struct RunReport {
  bool resumed = false;
  uint64_t steps_run = 0;
  uint64_t steps_skipped = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
};

// Refuses what must not be written: an output that exists (unless it is empty, to be overwritten, or holds
// the journal of this plan over these inputs), that is an input or lies in `input_folder` or a folder of `also_read`, by
// whatever path, link or hard link; side files that would be copied and cannot be opened. Creates nothing: what a dry run calls, and execute() itself. kRefusedOutput,
// kRefusedJournal, kIoChanged, kIoRead.
Result<void> check_target(const Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
                          const ExecuteOptions& options);

// Refuses (kIoWrite) a target where nothing can be created: a read-only file system, a folder without the permission.
// Creates nothing, so that a quota or a full folder is found by execute() alone.
Result<void> check_writable(const OutputTarget& target);

// Refuses (kIoSpace, `expected` and `found` as execute() gives them) a plan whose outputs do not fit into what is free
// where the target lies, what parts of an earlier run hold counted in. Sizes that a later phase decides are not known
// yet and count as nothing. Creates nothing.
Result<void> check_free_space(const Plan& plan, const OutputTarget& target);

// The tile size of the journal that an interrupted run left there: to be asked before planning, since results
// of phases belong to it. Nothing when there is no journal; kRefusedJournal when it is not one of ours.
Result<std::optional<uint64_t>> journal_tile(const OutputTarget& target);

// Errors: kIoRead, kIoWrite, kIoSpace (`expected` and `found` give the bytes needed and free), kIoChanged,
// kInterrupted, kRefusedOutput, kRefusedJournal, kRefusedMemory, and whatever Plan::finish() refuses. After a
// refusal or a changed input nothing of this run is left; after an interruption or a failed read or write its
// parts and journal are, and the same call continues.
Result<RunReport> execute(Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
                          const ExecuteOptions& options);

// The same into a folder given as such, for hosts and tests that bring their own; nothing is looked for
// around it.
Result<RunReport> execute(Plan& plan, const std::vector<RunInput>& inputs,
                          std::shared_ptr<OutputFolder> folder, const ExecuteOptions& options);

// Runs a plan without outputs, for what its phases measure: nothing is created, nothing resumed. kInternal when
// the plan writes.
Result<RunReport> examine(Plan& plan, const std::vector<RunInput>& inputs, const ExecuteOptions& options);

}  // namespace tftf
