#include "resident_store.h"

#include <algorithm>
#include <cstring>

#include "tftf/base/checked.h"

namespace tftf {

namespace {

// Short rows close to each other are read with what lies between them: a call costs more than copying a few KiB.
constexpr size_t kSpan = 64 << 10;
constexpr uint64_t kMostPerByte = 16;  // bytes read for each one that is wanted

Result<void> read_close_rows(ByteSource& file, const Extent& extent, std::byte* into) {
  const auto row_bytes = static_cast<size_t>(extent.row_bytes), stride = static_cast<size_t>(extent.stride);
  const auto at_once = static_cast<uint32_t>((kSpan - row_bytes) / stride + 1);
  std::byte span[kSpan];
  for (uint32_t row = 0; row < extent.rows; row += at_once) {
    const uint32_t rows = std::min(at_once, extent.rows - row);
    TFTF_TRY(file.read(extent.offset + row * extent.stride, {span, (rows - 1) * stride + row_bytes}));
    for (uint32_t r = 0; r < rows; ++r) {
      std::memcpy(into, span + r * stride, row_bytes);
      into += row_bytes;
    }
  }
  return {};
}

}  // namespace

Result<void> read_extent(FilePool<ByteSource>& inputs, const Extent& extent, std::byte* into) {
  if (extent.bytes() == 0) return {};
  auto file = inputs.get(extent.file);
  if (!file.ok()) return std::move(file).error();
  const bool close = extent.rows > 1 && extent.stride >= extent.row_bytes && extent.stride <= kSpan / 4 &&
                     extent.stride / kMostPerByte <= extent.row_bytes;
  if (close) return read_close_rows(**file, extent, into);
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

namespace {

Error no_memory() {
  return {.code = ErrorCode::kRefusedMemory, .message = "There is not enough memory for the buffers."};
}

}  // namespace

Result<AlignedBytes> ResidentStore::load(uint32_t index, std::span<const Bytes> before) {
  const Resident& resident = plan_.residents()[index];
  if (resident.gather != nullptr) return gather(index, before);
  AlignedBytes raw = aligned_bytes(resident.raw_bytes);
  if (!raw) return no_memory();
  std::byte* to = raw.get();
  for (const Extent& from : resident.from) {
    TFTF_TRY(read_extent(inputs_, from, to));
    to += from.bytes();
  }
  if (resident.prepare == nullptr) return raw;
  AlignedBytes ready = aligned_bytes(resident.ready_bytes);
  if (!ready) return no_memory();
  plan_.prepare(index, {raw.get(), static_cast<size_t>(resident.raw_bytes)},
                {ready.get(), static_cast<size_t>(resident.ready_bytes)});
  return ready;
}

Result<AlignedBytes> ResidentStore::gather(uint32_t index, std::span<const Bytes> before) {
  const Resident& resident = plan_.residents()[index];
  AlignedBytes ready = aligned_bytes(resident.ready_bytes);
  const AlignedBytes in = aligned_bytes(resident.gather_in_bytes),
                     scratch = aligned_bytes(resident.gather_scratch_bytes);
  if (!ready || !in || !scratch) return no_memory();
  std::fill_n(ready.get(), static_cast<size_t>(resident.ready_bytes), std::byte{0});
  StepIo io;
  std::vector<const std::byte*> pointers;
  for (uint64_t tile = 0; tile < plan_.gather_tiles(index); ++tile) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed))
      return Error{.code = ErrorCode::kInterrupted, .message = "Interrupted."};
    plan_.gather_io(index, tile, io);
    pointers.clear();
    std::byte* to = in.get();
    for (const Extent& from : io.in) {
      TFTF_TRY(read_extent(inputs_, from, to));
      pointers.push_back(to);
      to += ceil_div(from.bytes(), kSlotAlign) * kSlotAlign;
    }
    plan_.gather(index, tile, kernels_,
                 {.in = pointers,
                  .out = {},
                  .scratch = {scratch.get(), static_cast<size_t>(resident.gather_scratch_bytes)},
                  .residents = before},
                 {ready.get(), static_cast<size_t>(resident.ready_bytes)});
  }
  return ready;
}

Result<Bytes> ResidentStore::acquire(uint32_t index, std::span<const Bytes> before) {
  Slot& slot = slots_[index];
  const auto bytes = static_cast<size_t>(plan_.residents()[index].ready_bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return slot.state != State::kLoading; });
  if (slot.state == State::kEmpty) {
    slot.state = State::kLoading;
    lock.unlock();
    auto loaded = load(index, before);
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
