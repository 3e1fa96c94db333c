// The colibri folder tools in memory: planned and executed without files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "memory_model.h"
#include "tftf/transform/colibri/folder_tools.h"

namespace tftf::test {

struct FolderResult {
  std::map<std::string, std::string> files;  // outputs by name, and the manifest
  std::vector<std::string> copied;           // side files that the host would copy
  Account account;
  std::vector<std::string> notes;
  std::vector<std::string> consumed, needed_later;
  std::string text;  // of the plan, as planned
};

// `existing`: the output folder; null when it is not there. Faults against the plan's contract fail the test.
Result<FolderResult> folder_tool_in_memory(const MemoryModel& source,
                                           const std::shared_ptr<const transform::Pipe>& tool,
                                           const MemoryModel* existing = nullptr,
                                           TransformRequest request = {});

// A folder of the golden set: every file directly in it.
MemoryModel golden_folder(const std::string& path, const std::vector<std::string>& names);

}  // namespace tftf::test
