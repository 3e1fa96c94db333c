#include "phase_runner.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "aligned_bytes.h"
#include "tftf/base/checked.h"
#include "workers.h"

namespace tftf {
namespace {

constexpr uint64_t kCopyChunk = 32 << 20;
// How far ahead of a contiguous input the system is told what comes, and the smallest piece worth telling.
constexpr uint64_t kReadAhead = 4 << 20;
constexpr uint64_t kLeastAdvice = 64 << 10;
// Written bytes after which the disk is told to start.
constexpr uint64_t kWritebackBytes = 1 << 20;

constexpr uint64_t slot_bytes(uint64_t bytes) { return ceil_div(bytes, kSlotAlign) * kSlotAlign; }

// Units of a phase in the order they are taken: literals, chunks of copies, steps.
class Runner {
 public:
  Runner(RunState& run, size_t phase, std::vector<Value>& values)
      : run_(run), plan_(run.plan), phase_(run.plan.phases()[phase]), values_(values) {
    chunk_starts_.reserve(phase_.copy_count + 1);
    for (const Copy& copy : copies()) {
      chunk_starts_.push_back(chunks_);
      chunks_ += ceil_div(copy.from.row_bytes, kCopyChunk);
    }
    units_ = phase_.literal_count + chunks_ + phase_.count;
  }

  Result<void> go() {
    if (units_ == 0) return {};
    const auto workers = static_cast<uint32_t>(std::min<uint64_t>(run_.threads, units_));
    run_workers(
        workers, [this] { work(); }, [this] { report(); });
    if (error_) return *std::move(error_);
    if (stopped()) return Error{.code = ErrorCode::kInterrupted, .message = "Interrupted."};
    return {};
  }

 private:
  struct Worker {
    StepIo io;
    AlignedBytes in, out, scratch;
    std::vector<const std::byte*> in_pointers;
    std::vector<std::byte*> out_pointers;
    std::vector<Bytes> residents;
    std::vector<std::byte> copy_buffer;
    // Written and not yet told to the disk: a hull in one file.
    uint32_t dirty_file = 0;
    uint64_t dirty_begin = 0, dirty_end = 0, dirty_bytes = 0;
  };

  std::span<const Copy> copies() const {
    return plan_.copies().subspan(phase_.first_copy, phase_.copy_count);
  }
  bool stopped() const {
    return run_.options.stop != nullptr && run_.options.stop->load(std::memory_order_relaxed);
  }

  void report() const {
    if (!run_.options.progress) return;
    const auto entries = plan_.entries();
    const uint32_t entry = current_.load(std::memory_order_relaxed);
    run_.options.progress({.done = run_.done_bytes.load(std::memory_order_relaxed),
                           .total = run_.total_bytes,
                           .tensor = entry < entries.size() ? std::string_view(entries[entry].name) : "",
                           .resumed = run_.resumed});
  }

  void work() {
    Worker worker;
    worker.in = aligned_bytes(phase_.in_bytes);
    worker.out = aligned_bytes(phase_.out_bytes);
    worker.scratch = aligned_bytes(phase_.scratch_bytes);
    if (!worker.in || !worker.out || !worker.scratch)
      fail(0, {.code = ErrorCode::kRefusedMemory, .message = "There is not enough memory for the buffers."});
    while (!stopped() && !failed_.load(std::memory_order_relaxed)) {
      const uint64_t unit = next_.fetch_add(1, std::memory_order_relaxed);
      if (unit >= units_) break;
      if (auto result = run_unit(worker, unit); !result.ok()) fail(unit, std::move(result).error());
    }
    start_writeback(worker);
  }

  void fail(uint64_t unit, Error error) {
    const std::lock_guard lock(mutex_);
    failed_.store(true, std::memory_order_relaxed);
    if (error_ && error_unit_ < unit) return;
    error_ = std::move(error);
    error_unit_ = unit;
  }

  Result<void> run_unit(Worker& worker, uint64_t unit) {
    if (unit < phase_.literal_count) return write_literal(worker, phase_.first_literal + unit);
    unit -= phase_.literal_count;
    if (unit < chunks_) return copy_chunk(worker, unit);
    return run_step(worker, phase_.first + unit - chunks_);
  }

  static uint64_t total(std::span<const Extent> extents) {
    uint64_t bytes = 0;
    for (const Extent& extent : extents) bytes += extent.bytes();
    return bytes;
  }

  // What writes nothing is never done before: nothing would tell.
  bool skipped(std::span<const Extent> out) {
    const uint64_t bytes = total(out);
    if (run_.log == nullptr || bytes == 0 || !run_.log->was_done(out)) return false;
    run_.done_bytes += bytes;
    return true;
  }

  Result<void> written(std::span<const Extent> out, uint64_t step, uint64_t index, const Value& value) {
    const uint64_t bytes = total(out);
    run_.done_bytes += bytes;
    run_.bytes_written += bytes;
    return run_.log != nullptr && bytes != 0 ? run_.log->add(out, step, index, value) : Result<void>();
  }

  Result<void> write_literal(Worker& worker, size_t index) {
    const Literal& literal = plan_.literals()[index];
    const std::span<const Extent> out(&literal.to, 1);
    if (skipped(out)) return {};
    TFTF_TRY(write(worker, literal.to, as_bytes(literal.bytes).data()));
    return written(out, DoneLog::kNoStep, 0, {});
  }

  Result<void> copy_chunk(Worker& worker, uint64_t chunk) {
    const auto after = std::upper_bound(chunk_starts_.begin(), chunk_starts_.end(), chunk);
    const auto index = static_cast<size_t>(after - chunk_starts_.begin() - 1);
    const Copy& copy = copies()[index];
    const uint64_t begin = (chunk - chunk_starts_[index]) * kCopyChunk;
    const uint64_t bytes = std::min(kCopyChunk, copy.from.row_bytes - begin);
    const Extent from = slice(copy.from, begin, bytes);
    const Extent to = slice(copy.to, begin, bytes);
    const std::span<const Extent> out(&to, 1);
    if (skipped(out)) return {};
    auto in_file = run_.inputs.get(from.file);
    if (!in_file.ok()) return std::move(in_file).error();
    auto out_file = run_.outputs.get(to.file);
    if (!out_file.ok()) return std::move(out_file).error();
    TFTF_TRY((*out_file)->copy(to.offset, **in_file, from.offset, bytes, worker.copy_buffer));
    if (bytes >= kWritebackBytes) {
      (*out_file)->start_writeback(to.offset, bytes);
    } else {
      note_dirty(worker, to);
    }
    run_.bytes_read += bytes;
    return written(out, DoneLog::kNoStep, 0, {});
  }

  Result<void> run_step(Worker& worker, uint64_t step) {
    const Item& item = plan_.items()[plan_.item_of(step)];
    const std::span<const uint32_t> residents = plan_.residents_of(step);
    current_.store(item.tensor, std::memory_order_relaxed);
    StepIo& io = worker.io;
    plan_.io(step, io);
    if (phase_.writes && skipped(io.out)) {
      ++run_.steps_skipped;
      for (uint32_t r : residents) run_.residents.release(r);
      return {};
    }

    uint64_t at = 0;
    uint64_t read = 0;
    worker.in_pointers.clear();
    for (size_t k = 0; k < io.in.size(); ++k) {
      advise(item, step, io.in[k]);
      std::byte* const to = worker.in.get() + at;
      TFTF_TRY(read_extent(run_.inputs, io.in[k], to));
      worker.in_pointers.push_back(to);
      at += slot_bytes(io.in[k].bytes());
      read += io.in[k].bytes();
    }
    at = 0;
    worker.out_pointers.clear();
    for (const Extent& out : io.out) {
      worker.out_pointers.push_back(worker.out.get() + at);
      at += slot_bytes(out.bytes());
    }
    worker.residents.clear();
    for (uint32_t r : residents) {
      auto ready = run_.residents.acquire(r, worker.residents);
      if (!ready.ok()) return std::move(ready).error();
      worker.residents.push_back(*ready);
    }
    Value value;
    plan_.run(step, run_.kernels,
              {.in = worker.in_pointers,
               .out = worker.out_pointers,
               .scratch = {worker.scratch.get(), static_cast<size_t>(phase_.scratch_bytes)},
               .residents = worker.residents},
              value);
    for (uint32_t r : residents) run_.residents.release(r);
    for (size_t k = 0; k < io.out.size(); ++k) TFTF_TRY(write(worker, io.out[k], worker.out_pointers[k]));

    ++run_.steps_run;
    run_.bytes_read += read;
    if (!phase_.writes) run_.done_bytes += read;
    const uint64_t index =
        phase_.keeps_values ? step - phase_.first : plan_.item_of(step) - phase_.first_item;
    if (!is_zero(value)) {
      const std::lock_guard lock(values_mutex_);
      plan_.merge_values(step, values_[static_cast<size_t>(index)], value);
    }
    return phase_.writes ? written(io.out, step, index, value) : Result<void>();
  }

  // The first tile of a tensor announces the window before it, every other one the piece that enters the
  // window.
  void advise(const Item& item, uint64_t step, const Extent& in) {
    if (in.rows != 1 || in.row_bytes < kLeastAdvice) return;
    for (const Extent& whole : item.in) {
      const uint64_t end = whole.offset + whole.bytes();
      if (whole.rows != 1 || whole.file != in.file || in.offset < whole.offset || in.offset >= end) continue;
      const uint64_t reach = std::max(kReadAhead, 2 * in.row_bytes);
      const uint64_t to = std::min(end, in.offset + in.row_bytes + reach);
      const uint64_t from = step == item.first_step ? in.offset : std::min(to, in.offset + reach);
      if (from >= to) return;
      if (auto file = run_.inputs.get(in.file); file.ok()) (*file)->advise(from, to - from);
      return;
    }
  }

  Result<void> write(Worker& worker, const Extent& to, const std::byte* bytes) {
    if (to.bytes() == 0) return {};
    auto file = run_.outputs.get(to.file);
    if (!file.ok()) return std::move(file).error();
    for (uint64_t done = 0; done < to.row_bytes;) {
      const uint64_t piece = std::min(kMaxWrite, to.row_bytes - done);
      TFTF_TRY((*file)->write(to.offset + done, {bytes + done, static_cast<size_t>(piece)}));
      done += piece;
    }
    note_dirty(worker, to);
    return {};
  }

  void note_dirty(Worker& worker, const Extent& to) {
    if (worker.dirty_bytes != 0 && worker.dirty_file != to.file) start_writeback(worker);
    if (worker.dirty_bytes == 0) {
      worker.dirty_file = to.file;
      worker.dirty_begin = to.offset;
      worker.dirty_end = to.offset;
    }
    worker.dirty_begin = std::min(worker.dirty_begin, to.offset);
    worker.dirty_end = std::max(worker.dirty_end, to.offset + to.row_bytes);
    worker.dirty_bytes += to.row_bytes;
    if (worker.dirty_bytes >= kWritebackBytes) start_writeback(worker);
  }

  void start_writeback(Worker& worker) {
    if (worker.dirty_bytes == 0) return;
    if (auto file = run_.outputs.get(worker.dirty_file); file.ok())
      (*file)->start_writeback(worker.dirty_begin, worker.dirty_end - worker.dirty_begin);
    worker.dirty_bytes = 0;
  }

  RunState& run_;
  const Plan& plan_;
  const Phase& phase_;
  std::vector<Value>& values_;
  std::vector<uint64_t> chunk_starts_;
  uint64_t chunks_ = 0;
  uint64_t units_ = 0;

  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> current_{UINT32_MAX};
  std::atomic<bool> failed_{false};
  std::mutex values_mutex_;
  std::mutex mutex_;  // the members below
  std::optional<Error> error_;
  uint64_t error_unit_ = 0;
};

}  // namespace

bool is_zero(const Value& value) {
  // By bits, so that a negative zero or a NaN is kept.
  const Value zero;
  return std::memcmp(&value, &zero, sizeof(Value)) == 0;
}

Result<void> run_phase(RunState& run, size_t phase, std::vector<Value>& values) {
  return Runner(run, phase, values).go();
}

}  // namespace tftf
