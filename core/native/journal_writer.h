// The journal while a run goes on: a thread that makes durable what the workers have finished and writes it
// down.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "file_pool.h"
#include "phase_runner.h"
#include "tftf/plan/journal.h"

namespace tftf {

class JournalWriter : public DoneLog {
 public:
  // `file` is open and locked; `before`: what an earlier run had written there (empty for a new journal).
  JournalWriter(const Plan& plan, std::shared_ptr<OutputFile> file, Journal before,
                FilePool<OutputFile>& parts, const ExecuteOptions& options);
  ~JournalWriter() override;

  const Journal& before() const { return before_; }
  // Appends a line and makes it durable.
  Result<void> append(const std::string& line);
  // Appends a line whose loss does no harm.
  Result<void> note(const std::string& line);

  // Flushes by itself from now on, until end_phase().
  void begin_phase(size_t phase);
  // Stops that, and flushes what is left when `flush`.
  Result<void> end_phase(bool flush);

  bool was_done(std::span<const Extent> out) const override;
  Result<void> add(std::span<const Extent> out, uint64_t step, uint64_t index, const Value& value) override;

 private:
  void work();
  Result<void> flush(const JournalBatch& batch);

  const Plan& plan_;
  std::shared_ptr<OutputFile> file_;
  Journal before_;
  FilePool<OutputFile>& parts_;
  const std::chrono::milliseconds interval_;
  const uint64_t bytes_;
  const uint32_t rest_;
  uint64_t end_;  // of the journal

  std::thread thread_;
  std::mutex mutex_;  // the members below
  std::condition_variable wake_;
  bool ending_ = false;
  JournalBatch batch_;
  uint64_t batch_bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace tftf
