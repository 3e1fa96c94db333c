// The parts of one run: made, continued, and turned into the final files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "file_pool.h"
#include "journal_writer.h"
#include "output_target.h"

namespace tftf {

class OutputParts {
 public:
  // `sides`: the side files as they were at the start of the run.
  OutputParts(const Plan& plan, std::shared_ptr<OutputFolder> folder, const OutputTarget& target,
              const std::vector<SeenFile>& sides, const ExecuteOptions& options);

  const TargetNames& names() const { return names_; }

  FilePool<OutputFile>& files() { return files_; }
  // Makes the parts of all outputs whose layout is known and takes their space, or finds those of an earlier
  // run.
  Result<void> make(const Journal& before);
  // Everything durable under its final name: parts, then side files, the index, the run's last file; stale shards go.
  Result<void> publish(JournalWriter& journal);
  // Removes whatever of this run lies under a temporary name.
  void discard();
  // Explains a full destination by numbers.
  Error space_error(Error error) const;

 private:
  Result<void> make_part(size_t output, const Journal& before);
  Result<void> write_side(const SideOutput& side);
  Result<void> copy_side(OutputFile& file, const SideOutput& side);
  Result<void> remove_stale();

  const Plan& plan_;
  std::shared_ptr<OutputFolder> folder_;
  const OutputTarget& target_;
  TargetNames names_;
  const std::vector<SeenFile>& sides_;
  const ExecuteOptions& options_;
  FilePool<OutputFile> files_;
  size_t made_ = 0;
  std::vector<bool> renamed_;
};

}  // namespace tftf
