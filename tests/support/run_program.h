// Starts an executable and waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tftf::test {

struct ProgramRun {
  int status = -1;  // exit status; 128 + number of the signal that ended it
  std::string out;
  std::string err;
  uint64_t peak_kib = 0;  // of resident memory
};

// `environment`: "NAME=value" entries added to ours. `folder`: where it is started, empty for here.
ProgramRun run_program(const std::vector<std::string>& command, const std::string& folder = {},
                       const std::vector<std::string>& environment = {});

}  // namespace tftf::test
