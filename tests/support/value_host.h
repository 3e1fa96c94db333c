// Passes over values in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_model.h"
#include "tftf/inspect/value_pass.h"

namespace tftf::test {

struct ValueHostOptions {
  const KernelTable* kernels = nullptr;  // null: the fastest
  uint32_t seed = 0;                     // order of the pieces; 0: as they are numbered
};

// Serves the pass to its end; `models[i]` is its checkpoint number i. Ranges outside of files, and bytes that the
// pass had not announced, fail the test.
Result<void> run_in_memory(ValuePass& pass, std::vector<const MemoryModel*> models,
                           std::vector<const Checkpoint*> checkpoints, ValueHostOptions options = {});

}  // namespace tftf::test
