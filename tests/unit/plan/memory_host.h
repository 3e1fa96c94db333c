// The smallest host: executes a plan over strings, in a shuffled order of steps, and checks what every host
// may rely on. Buffers are exactly as long as their extents, so that one byte too many is found by a
// sanitizer or by the guard behind it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "tftf/plan/plan.h"
#include "tftf/simd/kernels.h"

namespace tftf::test {

// An aligned buffer with a guard before its end.
class GuardedBytes {
 public:
  explicit GuardedBytes(uint64_t size) : size_(static_cast<size_t>(size)) {
    data_ = static_cast<std::byte*>(::operator new[](size_ + kGuard, std::align_val_t(kSlotAlign)));
    std::memset(data_, 0xC7, size_ + kGuard);
  }
  GuardedBytes(GuardedBytes&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
  }
  GuardedBytes& operator=(GuardedBytes&&) = delete;
  ~GuardedBytes() {
    if (data_ != nullptr) ::operator delete[](data_, std::align_val_t(kSlotAlign));
  }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool intact() const {
    return std::all_of(data_ + size_, data_ + size_ + kGuard,
                       [](std::byte b) { return b == std::byte{0xC7}; });
  }

 private:
  static constexpr size_t kGuard = 16;
  std::byte* data_;
  size_t size_;
};

struct MemoryRun {
  std::vector<std::string> outputs;
  uint64_t steps = 0;
  uint64_t most_residents = 0;      // bytes alive at a time, steps in order only
  std::vector<std::string> faults;  // what broke the contract; empty in every passing test
};

struct MemoryOptions {
  const KernelTable* kernels = nullptr;  // null: scalar
  uint32_t seed = 0;                     // 0: steps in order, else shuffled
};

class MemoryHost {
 public:
  MemoryHost(Plan& plan, const std::vector<std::string>& inputs, MemoryOptions options)
      : plan_(plan), inputs_(inputs), options_(options) {}

  Result<MemoryRun> run() {
    if (inputs_.size() != plan_.inputs().size()) fault("the wrong number of inputs");
    for (size_t phase = 0; phase < plan_.phases().size(); ++phase) {
      take_residents();
      TFTF_TRY(run_phase(phase));
    }
    grow();
    for (size_t i = 0; i < writes_.size(); ++i)
      if (std::any_of(writes_[i].begin(), writes_[i].end(), [](uint8_t n) { return n != 1; }))
        fault("output " + std::to_string(i) + " has bytes that were not written exactly once");
    for (uint32_t left : users_)
      if (left != 0) fault("a resident has users left");
    for (const auto& bytes : ready_)
      if (bytes) fault("a resident is still alive");
    return std::move(result_);
  }

 private:
  void fault(std::string what) { result_.faults.push_back(std::move(what)); }

  // Those that a phase has appended, and new users of the others.
  void take_residents() {
    ready_.resize(plan_.residents().size());
    users_.resize(ready_.size());
    counted_.resize(ready_.size());
    for (size_t i = 0; i < users_.size(); ++i) {
      const uint32_t users = plan_.residents()[i].users;
      users_[i] += users - counted_[i];
      counted_[i] = users;
    }
  }

  // Outputs whose layout is known by now.
  void grow() {
    result_.outputs.resize(plan_.outputs().size());
    writes_.resize(plan_.outputs().size());
    for (size_t i = 0; i < writes_.size(); ++i) {
      if (!plan_.outputs()[i].known) continue;
      result_.outputs[i].resize(static_cast<size_t>(plan_.outputs()[i].size));
      writes_[i].resize(result_.outputs[i].size());
    }
  }

  void write(const Extent& to, const std::byte* bytes) {
    std::string& out = result_.outputs[to.file];
    if (to.rows != 1 || to.offset > out.size() || to.row_bytes > out.size() - to.offset)
      return fault("a write outside of its output");
    const auto at = static_cast<size_t>(to.offset);
    std::memcpy(out.data() + at, bytes, static_cast<size_t>(to.row_bytes));
    for (size_t i = at; i < at + to.row_bytes; ++i) ++writes_[to.file][i];
  }

  void read(const Extent& from, std::byte* to) {
    const std::string& in = inputs_[from.file];
    for (uint32_t row = 0; row < from.rows; ++row) {
      const uint64_t begin = from.offset + row * from.stride;
      if (begin > in.size() || from.row_bytes > in.size() - begin)
        return fault("a read outside of its input");
      std::memcpy(to + row * from.row_bytes, in.data() + begin, static_cast<size_t>(from.row_bytes));
    }
  }

  void gather(uint32_t index, std::span<const Bytes> before) {
    const Resident& r = plan_.residents()[index];
    ready_[index] = std::make_unique<GuardedBytes>(r.ready_bytes);
    std::fill_n(ready_[index]->data(), ready_[index]->size(), std::byte{0});
    for (uint64_t tile = 0; tile < plan_.gather_tiles(index); ++tile) {
      StepIo io;
      plan_.gather_io(index, tile, io);
      std::vector<GuardedBytes> in;
      std::vector<const std::byte*> pointers;
      uint64_t in_bytes = 0;
      for (const Extent& from : io.in) {
        in.emplace_back(from.bytes());
        read(from, in.back().data());
        pointers.push_back(in.back().data());
        in_bytes += from.bytes();
      }
      const GuardedBytes scratch(r.gather_scratch_bytes);
      plan_.gather(
          index, tile, options_.kernels != nullptr ? *options_.kernels : scalar_kernels(),
          {.in = pointers, .out = {}, .scratch = {scratch.data(), scratch.size()}, .residents = before},
          {ready_[index]->data(), ready_[index]->size()});
      for (const GuardedBytes& buffer : in)
        if (!buffer.intact()) fault("a gathering wrote into its input");
      if (!scratch.intact()) fault("a gathering wrote past its scratch");
      if (in_bytes > r.gather_in_bytes) fault("a gathering is larger than its resident says");
    }
    if (!ready_[index]->intact()) fault("a gathering wrote past its end");
    alive_ += r.ready_bytes;
    result_.most_residents = std::max(result_.most_residents, alive_);
  }

  Bytes resident(uint32_t index, std::span<const Bytes> before) {
    const Resident& r = plan_.residents()[index];
    if (!ready_[index] && r.gather != nullptr) gather(index, before);
    if (!ready_[index]) {
      GuardedBytes raw(r.raw_bytes);
      std::byte* to = raw.data();
      for (const Extent& from : r.from) {
        read(from, to);
        to += from.bytes();
      }
      ready_[index] = std::make_unique<GuardedBytes>(r.ready_bytes);
      plan_.prepare(index, {raw.data(), raw.size()}, {ready_[index]->data(), ready_[index]->size()});
      if (!ready_[index]->intact()) fault("prepare() wrote past its end");
      alive_ += r.ready_bytes;
      result_.most_residents = std::max(result_.most_residents, alive_);
    }
    return {ready_[index]->data(), ready_[index]->size()};
  }

  void release(uint32_t index) {
    if (users_[index] == 0) return fault("a resident was used more often than counted");
    if (--users_[index] != 0) return;
    alive_ -= ready_[index]->size();
    ready_[index].reset();
  }

  Result<void> run_phase(size_t index) {
    grow();
    const Phase phase = plan_.phases()[index];
    for (const Literal& literal : plan_.literals().subspan(phase.first_literal, phase.literal_count))
      write(literal.to, as_bytes(literal.bytes).data());
    for (const Copy& copy : plan_.copies().subspan(phase.first_copy, phase.copy_count)) {
      GuardedBytes bytes(copy.from.bytes());
      read(copy.from, bytes.data());
      write(copy.to, bytes.data());
    }
    std::vector<uint64_t> steps;
    for (uint64_t s = phase.first; s < phase.first + phase.count; ++s) steps.push_back(s);
    if (options_.seed != 0) std::shuffle(steps.begin(), steps.end(), std::mt19937(options_.seed));
    std::vector<Value> values(static_cast<size_t>(phase.value_count()));
    for (const uint64_t step : steps) {
      Value value;
      run_step(phase, step, value);
      const uint64_t at = phase.keeps_values ? step - phase.first : plan_.item_of(step) - phase.first_item;
      plan_.merge_values(step, values[static_cast<size_t>(at)], value);
    }
    return plan_.finish(index, values);
  }

  void run_step(const Phase& phase, uint64_t step, Value& value) {
    plan_.io(step, io_);
    std::vector<GuardedBytes> in, out;
    std::vector<const std::byte*> in_pointers;
    std::vector<std::byte*> out_pointers;
    std::vector<Bytes> residents;
    uint64_t in_bytes = 0;
    uint64_t out_bytes = 0;
    for (const Extent& from : io_.in) {
      in.emplace_back(from.bytes());
      read(from, in.back().data());
      in_pointers.push_back(in.back().data());
      in_bytes += from.bytes();
    }
    for (const Extent& to : io_.out) {
      out.emplace_back(to.bytes());
      out_pointers.push_back(out.back().data());
      out_bytes += to.bytes();
    }
    for (uint32_t r : plan_.residents_of(step)) residents.push_back(resident(r, residents));
    const GuardedBytes scratch(phase.scratch_bytes);
    plan_.run(step, options_.kernels != nullptr ? *options_.kernels : scalar_kernels(),
              {.in = in_pointers,
               .out = out_pointers,
               .scratch = {scratch.data(), scratch.size()},
               .residents = residents},
              value);
    for (uint32_t r : plan_.residents_of(step)) release(r);
    for (const GuardedBytes& buffer : in)
      if (!buffer.intact()) fault("a step wrote into its input");
    for (size_t k = 0; k < out.size(); ++k) {
      if (!out[k].intact()) fault("a step wrote past its output");
      write(io_.out[k], out[k].data());
    }
    if (!scratch.intact()) fault("a step wrote past its scratch");
    if (in_bytes > phase.in_bytes || out_bytes > phase.out_bytes)
      fault("a step is larger than its phase says");
    ++result_.steps;
  }

  Plan& plan_;
  const std::vector<std::string>& inputs_;
  MemoryOptions options_;
  MemoryRun result_;
  std::vector<std::vector<uint8_t>> writes_;
  std::vector<uint32_t> users_, counted_;
  std::vector<std::unique_ptr<GuardedBytes>> ready_;
  uint64_t alive_ = 0;
  StepIo io_;
};

// Executes the whole plan. An Error comes from finish(); `faults` must be empty.
inline Result<MemoryRun> run_in_memory(Plan& plan, const std::vector<std::string>& inputs,
                                       MemoryOptions options = {}) {
  return MemoryHost(plan, inputs, options).run();
}

}  // namespace tftf::test
