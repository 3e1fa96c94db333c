// Data that several steps need whole: loaded by the first of them, freed after the last.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "aligned_bytes.h"
#include "file_pool.h"
#include "tftf/plan/plan.h"
#include "tftf_native/byte_source.h"

namespace tftf {

class ResidentStore {
 public:
  // `stop`: ends a gathering with kInterrupted; may be null.
  ResidentStore(const Plan& plan, FilePool<ByteSource>& inputs, const KernelTable& kernels,
                const std::atomic<bool>* stop)
      : plan_(plan), inputs_(inputs), kernels_(kernels), stop_(stop) {}
  // Residents and users that a finish() has added.
  void take_in();
  // Loads and prepares it unless it is there; `before`: the residents that stand before it in the step's list. A waiting
  // thread tries again after one that failed.
  Result<Bytes> acquire(uint32_t resident, std::span<const Bytes> before);
  // So many of its users are done (or skipped, without having acquired it).
  void release(uint32_t resident, uint32_t users = 1);
  uint64_t alive_bytes() const;

 private:
  enum class State { kEmpty, kLoading, kReady };
  struct Slot {
    State state = State::kEmpty;
    uint32_t users = 0;    // still to come
    uint32_t counted = 0;  // of the plan's users, taken in
    AlignedBytes bytes;
  };

  Result<AlignedBytes> load(uint32_t resident, std::span<const Bytes> before);
  Result<AlignedBytes> gather(uint32_t resident, std::span<const Bytes> before);

  const Plan& plan_;
  FilePool<ByteSource>& inputs_;
  const KernelTable& kernels_;
  const std::atomic<bool>* stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  uint64_t alive_ = 0;
};

// The bytes of an extent, rows back to back.
Result<void> read_extent(FilePool<ByteSource>& inputs, const Extent& extent, std::byte* into);

}  // namespace tftf
