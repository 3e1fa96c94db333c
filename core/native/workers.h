// The threads of one stage, phase or pass.
#pragma once

#include <cstdint>
#include <functional>

namespace tftf {

// Calls `work` on `count` threads of its own and returns when all have come back. Meanwhile the calling thread calls
// `report`, ten times a second and once at the end; with no threads, never.
void run_workers(uint32_t count, const std::function<void()>& work, const std::function<void()>& report);

}  // namespace tftf
