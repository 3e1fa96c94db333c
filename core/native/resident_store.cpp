#include "resident_store.h"

namespace tftf {

Result<void> read_extent(FilePool<ByteSource>& inputs, const Extent& extent, std::byte* into) {
  if (extent.bytes() == 0) return {};
  auto file = inputs.get(extent.file);
  if (!file.ok()) return std::move(file).error();
  const auto row_bytes = static_cast<size_t>(extent.row_bytes);
  for (uint32_t row = 0; row < extent.rows; ++row)
    TFTF_TRY((*file)->read(extent.offset + row * extent.stride, {into + row * row_bytes, row_bytes}));
  return {};
}

void ResidentStore::take_in() {
  slots_.resize(plan_.residents().size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const uint32_t users = plan_.residents()[i].users;
    slots_[i].users += users - slots_[i].counted;
    slots_[i].counted = users;
  }
}

Result<std::unique_ptr<std::byte[]>> ResidentStore::load(uint32_t index) {
  const Resident& resident = plan_.residents()[index];
  const auto raw_bytes = static_cast<size_t>(resident.raw_bytes);
  const auto ready_bytes = static_cast<size_t>(resident.ready_bytes);
  std::unique_ptr<std::byte[]> raw(new std::byte[raw_bytes]);
  std::byte* to = raw.get();
  for (const Extent& from : resident.from) {
    TFTF_TRY(read_extent(inputs_, from, to));
    to += from.bytes();
  }
  if (resident.prepare == nullptr) return raw;
  std::unique_ptr<std::byte[]> ready(new std::byte[ready_bytes]);
  plan_.prepare(index, {raw.get(), raw_bytes}, {ready.get(), ready_bytes});
  return ready;
}

Result<Bytes> ResidentStore::acquire(uint32_t index) {
  Slot& slot = slots_[index];
  const auto bytes = static_cast<size_t>(plan_.residents()[index].ready_bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return slot.state != State::kLoading; });
  if (slot.state == State::kEmpty) {
    slot.state = State::kLoading;
    lock.unlock();
    auto loaded = load(index);
    lock.lock();
    slot.state = loaded.ok() ? State::kReady : State::kEmpty;
    changed_.notify_all();
    if (!loaded.ok()) return std::move(loaded).error();
    slot.bytes = *std::move(loaded);
    alive_ += bytes;
  }
  return Bytes(slot.bytes.get(), bytes);
}

void ResidentStore::release(uint32_t index, uint32_t users) {
  Slot& slot = slots_[index];
  const std::lock_guard lock(mutex_);
  slot.users -= users;
  if (slot.users != 0 || slot.state != State::kReady) return;
  slot.bytes.reset();
  slot.state = State::kEmpty;
  alive_ -= plan_.residents()[index].ready_bytes;
}

uint64_t ResidentStore::alive_bytes() const {
  const std::lock_guard lock(mutex_);
  return alive_;
}

}  // namespace tftf
