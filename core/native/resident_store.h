// Data that several steps need whole: loaded by the first of them, freed after the last.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "file_pool.h"
#include "tftf/plan/plan.h"
#include "tftf_native/byte_source.h"

namespace tftf {

class ResidentStore {
 public:
  ResidentStore(const Plan& plan, FilePool<ByteSource>& inputs) : plan_(plan), inputs_(inputs) {}
  // Residents and users that a finish() has added.
  void take_in();
  // Loads and prepares it unless it is there. A waiting thread gets the error of the one that failed.
  Result<Bytes> acquire(uint32_t resident);
  // So many of its users are done (or skipped, without having acquired it).
  void release(uint32_t resident, uint32_t users = 1);
  uint64_t alive_bytes() const;

 private:
  enum class State { kEmpty, kLoading, kReady };
  struct Slot {
    State state = State::kEmpty;
    uint32_t users = 0;    // still to come
    uint32_t counted = 0;  // of the plan's users, taken in
    std::unique_ptr<std::byte[]> bytes;
  };

  Result<std::unique_ptr<std::byte[]>> load(uint32_t resident);

  const Plan& plan_;
  FilePool<ByteSource>& inputs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  uint64_t alive_ = 0;
};

// The bytes of an extent, rows back to back.
Result<void> read_extent(FilePool<ByteSource>& inputs, const Extent& extent, std::byte* into);

}  // namespace tftf
