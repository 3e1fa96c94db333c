// Runs one phase of a plan on threads.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "file_pool.h"
#include "resident_store.h"
#include "tftf/plan/plan.h"
#include "tftf_native/executor.h"

namespace tftf {

// Hears what has been written; asked what an earlier run had written.
class DoneLog {
 public:
  virtual ~DoneLog() = default;
  // All of these ranges are done by an earlier run (never changes while a phase runs).
  virtual bool was_done(std::span<const Extent> out) const = 0;
  // Written by `step` (kNoStep: a copy or literal), not synced. `value` belongs to number `index` of the
  // phase. An error is one of the log itself and ends the run.
  static constexpr uint64_t kNoStep = UINT64_MAX;
  virtual Result<void> add(std::span<const Extent> out, uint64_t step, uint64_t index,
                           const Value& value) = 0;
};

// What all phases of one run share.
struct RunState {
  Plan& plan;
  const ExecuteOptions& options;
  const KernelTable& kernels;
  uint32_t threads;
  FilePool<ByteSource>& inputs;
  FilePool<OutputFile>& outputs;
  ResidentStore& residents;
  DoneLog* log = nullptr;  // null: nothing is kept, nothing was done before

  std::atomic<uint64_t> done_bytes{0};
  uint64_t total_bytes = 0;
  bool resumed = false;
  std::atomic<uint64_t> steps_run{0};
  std::atomic<uint64_t> steps_skipped{0};
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_written{0};
};

// All copies, literals and steps of the phase. `values`: phase.value_count() of them, those of an earlier run
// already in. Of several errors the one of the lowest step is returned; kInterrupted when the stop flag was
// set.
Result<void> run_phase(RunState& run, size_t phase, std::vector<Value>& values);

// True when there is nothing to merge.
bool is_zero(const Value& value);

}  // namespace tftf
