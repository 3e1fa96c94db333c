#include "journal_writer.h"

#include <algorithm>

namespace tftf {

using Clock = std::chrono::steady_clock;

JournalWriter::JournalWriter(const Plan& plan, std::shared_ptr<OutputFile> file, Journal before,
                             FilePool<OutputFile>& parts, const ExecuteOptions& options)
    : plan_(plan),
      file_(std::move(file)),
      before_(std::move(before)),
      parts_(parts),
      interval_(options.journal_interval),
      bytes_(options.journal_bytes),
      rest_(options.journal_rest),
      end_(before_.length) {}

JournalWriter::~JournalWriter() { (void)end_phase(false); }

Result<void> JournalWriter::note(const std::string& line) {
  TFTF_TRY(file_->write(end_, as_bytes(line)));
  end_ += line.size();
  return {};
}

Result<void> JournalWriter::append(const std::string& line) {
  TFTF_TRY(note(line));
  return file_->sync();
}

void JournalWriter::begin_phase(size_t phase) {
  ending_ = false;
  batch_ = {.phase = phase};
  batch_bytes_ = 0;
  thread_ = std::thread([this] { work(); });
}

Result<void> JournalWriter::end_phase(bool flush_rest) {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  if (error_) return *error_;
  if (flush_rest && !batch_.empty()) TFTF_TRY(flush(batch_));
  batch_ = {.phase = batch_.phase};
  return {};
}

bool JournalWriter::was_done(std::span<const Extent> out) const {
  return std::all_of(out.begin(), out.end(), [&](const Extent& extent) { return before_.was_done(extent); });
}

Result<void> JournalWriter::add(std::span<const Extent> out, uint64_t step, uint64_t index,
                                const Value& value) {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  for (const Extent& extent : out) {
    batch_.done[extent.file].add(extent.offset, extent.offset + extent.bytes());
    batch_bytes_ += extent.bytes();
  }
  if (step != kNoStep && !is_zero(value)) plan_.merge_values(step, batch_.values[index], value);
  if (batch_bytes_ >= bytes_) wake_.notify_one();
  return {};
}

void JournalWriter::work() {
  std::unique_lock lock(mutex_);
  Clock::time_point last = Clock::now();
  Clock::duration took{};
  while (!ending_) {
    // A slow disk must not spend its time on the journal.
    const Clock::time_point earliest = last + rest_ * took;
    const Clock::time_point due = std::max(last + interval_, earliest);
    wake_.wait_until(lock, due,
                     [&] { return ending_ || (batch_bytes_ >= bytes_ && Clock::now() >= earliest); });
    if (ending_) break;
    if (Clock::now() < earliest || (Clock::now() < due && batch_bytes_ < bytes_)) continue;
    if (batch_.empty()) {
      last = Clock::now();
      continue;
    }
    const JournalBatch batch = std::exchange(batch_, {.phase = batch_.phase});
    batch_bytes_ = 0;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    auto result = flush(batch);
    last = Clock::now();
    took = last - begin;
    lock.lock();
    if (!result.ok()) {
      error_ = std::move(result).error();
      return;
    }
  }
}

Result<void> JournalWriter::flush(const JournalBatch& batch) {
  for (const auto& [output, ranges] : batch.done) {
    auto part = parts_.get(output);
    if (!part.ok()) return std::move(part).error();
    TFTF_TRY((*part)->sync());
  }
  return append(journal_batch_line(batch));
}

}  // namespace tftf
