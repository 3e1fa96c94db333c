// The files behind a plan's inputs, and those beside them: opened on demand, and known to be the same all the time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "file_pool.h"
#include "tftf/plan/journal.h"
#include "tftf_native/executor.h"

namespace tftf {

class InputFiles {
 public:
  // All three must outlive it.
  InputFiles(const Plan& plan, const std::vector<RunInput>& inputs, const ExecuteOptions& options);

  FilePool<ByteSource>& files() { return files_; }
  // By input, as look() found them.
  const std::vector<Fingerprint>& fingerprints() const { return first_; }
  // Side files as they were at the start.
  const std::vector<SeenFile>& sides() const { return sides_; }
  std::vector<JournalInput> journal_inputs() const;

  // Are they as the plan saw them? Side files that are copied are opened, so that one that cannot be read is known before
  // anything is written. kIoChanged, kIoRead.
  Result<void> look();
  // Are they as at the start? kIoChanged, kIoRead.
  Result<void> look_again();

 private:
  Result<std::shared_ptr<ByteSource>> open(uint32_t i);
  Result<Fingerprint> now(size_t i);
  Result<void> look_at_sides(const std::string& when) const;

  const Plan& plan_;
  const std::vector<RunInput>& inputs_;
  const ExecuteOptions& options_;
  FilePool<ByteSource> files_;
  std::vector<Fingerprint> first_;
  std::vector<SeenFile> sides_;
};

}  // namespace tftf
