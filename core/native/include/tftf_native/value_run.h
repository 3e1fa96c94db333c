// The native host of passes over values: reads their pieces on threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "tftf/inspect/value_pass.h"
#include "tftf_native/model_reader.h"

namespace tftf {

struct ValueRunProgress {
  uint64_t done = 0;  // bytes of the stage at hand
  uint64_t total = 0;
  uint32_t stage = 0;
};
struct ValueRunOptions {
  uint32_t threads = 0;                                     // 0: as many as there are processors
  const KernelTable* kernels = nullptr;                     // null: the fastest
  std::function<void(const ValueRunProgress&)> progress{};  // by the calling thread, ten times a second
  const std::atomic<bool>* stop = nullptr;                  // set: kInterrupted
  uint64_t max_memory = UINT64_MAX;  // for buffers: fewer threads run; less than one needs is kRefusedMemory
};

// Serves a pass to its end. `models[i]` is the pass's checkpoint number i. Errors: whatever start() refuses, kIoRead,
// kIoChanged when a file is no longer what its header was read from, kInterrupted, kRefusedMemory.
Result<void> run_value_pass(ValuePass& pass, std::span<const NativeModel* const> models,
                            const ValueRunOptions& options);

}  // namespace tftf
