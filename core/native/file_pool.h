// Files opened on demand, a bounded number at a time: folders of adapters and checkpoints have thousands.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tftf/base/result.h"

namespace tftf {

template <class File>
class FilePool {
 public:
  using Open = std::function<Result<std::shared_ptr<File>>(uint32_t index)>;
  FilePool(size_t limit, Open open) : limit_(limit), open_(std::move(open)) {}

  // The file stays open while the result lives; beyond the limit the one unused for longest is closed.
  Result<std::shared_ptr<File>> get(uint32_t index) {
    const std::lock_guard lock(mutex_);
    if (slots_.size() <= index) slots_.resize(index + size_t{1});
    Slot& slot = slots_[index];
    slot.used = ++clock_;
    if (slot.file) return slot.file;
    if (opened_ >= limit_) close_oldest();
    auto file = open_(index);
    if (!file.ok()) return file;
    slot.file = *file;
    ++opened_;
    return slot.file;
  }

  void close_all() {
    const std::lock_guard lock(mutex_);
    for (Slot& slot : slots_) slot.file.reset();
    opened_ = 0;
  }

 private:
  struct Slot {
    std::shared_ptr<File> file;
    uint64_t used = 0;
  };

  void close_oldest() {
    Slot* oldest = nullptr;
    for (Slot& slot : slots_)
      if (slot.file.use_count() == 1 && (oldest == nullptr || slot.used < oldest->used)) oldest = &slot;
    if (oldest == nullptr) return;  // all in use: as many as there are threads, a few too many do no harm
    oldest->file.reset();
    --opened_;
  }

  std::mutex mutex_;
  size_t limit_;
  Open open_;
  std::vector<Slot> slots_;
  uint64_t clock_ = 0;
  size_t opened_ = 0;
};

}  // namespace tftf
