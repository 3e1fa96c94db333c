// How far a long operation is, on stderr: a bar on a terminal, a line every ten seconds elsewhere (spec cli
// 1).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "session.h"

namespace tftf::cli {

class ProgressBar {
 public:
  // Shows nothing at all with --no-progress or -q, nor for what takes less than half a second.
  explicit ProgressBar(const CommonOptions& common);
  // Takes the bar away.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Bytes done of `total`. `verb`: "reading". Bytes counted afresh or another verb begin a new rate.
  void update(std::string_view verb, uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  bool enabled_;
  bool terminal_;
  bool drawn_ = false;
  std::string verb_;
  uint64_t last_done_ = 0;
  uint64_t first_done_ = 0;                 // by an earlier run: says nothing about the rate
  Clock::time_point begin_ = Clock::now();  // of this verb
  Clock::time_point shown_;
};

// "reading 45 %, 1.25 GiB of 2.78 GiB, 1.10 GiB/s, 1 s left": `first` bytes were done `seconds` ago. In less than
// `columns` columns, a bar before it where there is room for one; 0: all of it, no bar.
std::string progress_text(std::string_view verb, uint64_t done, uint64_t total, double seconds,
                          uint64_t first, uint32_t columns);

// stdout is a terminal that wants colours (not with NO_COLOR, not a dumb one).
bool colours_wanted();

}  // namespace tftf::cli
