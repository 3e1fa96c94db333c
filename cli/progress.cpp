#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "terminal.h"
#include "tftf/base/size_text.h"

namespace tftf::cli {
namespace {

constexpr size_t kWidestBar = 24, kNarrowestBar = 8;
constexpr size_t kBarFrame = 3;  // "[", "] "

std::string bar(uint64_t done, uint64_t total, size_t width) {
  const double share = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  const size_t full = std::min(width, static_cast<size_t>(share * static_cast<double>(width)));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "] ";
}

// "8 s", "2 min 5 s", "3 h 20 min".
std::string duration_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::ceil(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

bool is_dumb() {
  const char* terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) == "dumb";
}

}  // namespace

std::string progress_text(std::string_view verb, uint64_t done, uint64_t total, double seconds,
                          uint64_t first, uint32_t columns) {
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::vector<std::string> parts = {
      std::string(verb) + " " + std::to_string(static_cast<int>(share * 100)) + " %",
      ", " + size_text(done) + " of " + size_text(total)};
  if (seconds > 0 && done > first) {
    const double rate = static_cast<double>(done - first) / seconds;
    parts.push_back(", " + size_text(static_cast<uint64_t>(rate)) + "/s");
    if (done < total)
      parts.push_back(", " + duration_text(static_cast<double>(total - done) / rate) + " left");
  }
  std::string out;
  for (const std::string& part : parts)
    if (columns == 0 || out.size() + part.size() < columns) out += part;
  if (columns == 0) return out;
  // A terminal wraps what reaches its last column.
  if (out.size() + kNarrowestBar + kBarFrame >= columns) return out;
  return bar(done, total, std::min<size_t>(kWidestBar, columns - 1 - out.size() - kBarFrame)) + out;
}

bool colours_wanted() {
  const char* no = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0') && !is_dumb();
}

ProgressBar::ProgressBar(const CommonOptions& common)
    : enabled_(!common.no_progress && !common.quiet), terminal_(::isatty(STDERR_FILENO) != 0 && !is_dumb()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::string_view verb, uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (verb != verb_ || done < last_done_) {
    verb_ = verb;
    begin_ = shown_ = now;
    first_done_ = done;
  }
  last_done_ = done;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double since = std::chrono::duration<double>(now - shown_).count();
  if (seconds < 0.5 || since < (terminal_ ? 0.1 : 10)) return;
  shown_ = now;
  const std::string text =
      progress_text(verb, done, total, seconds, first_done_, terminal_ ? terminal_width(STDERR_FILENO) : 0);
  if (terminal_) {
    std::fputs(("\r\x1b[K" + text).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
  } else {
    std::fputs((text + "\n").c_str(), stderr);
  }
}

}  // namespace tftf::cli
