#include "progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tftf/base/size_text.h"

namespace tftf::cli {
namespace {

constexpr int kBarWidth = 24;

std::string bar(uint64_t done, uint64_t total) {
  const int full =
      total == 0 ? 0 : static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * kBarWidth);
  return "[" + std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(kBarWidth - full), '.') + "] ";
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
                          uint64_t first) {
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::string out = std::string(verb) + " " + std::to_string(static_cast<int>(share * 100)) + " %, " +
                    size_text(done) + " of " + size_text(total);
  if (seconds <= 0 || done <= first) return out;
  const double rate = static_cast<double>(done - first) / seconds;
  out += ", " + size_text(static_cast<uint64_t>(rate)) + "/s";
  if (done < total) out += ", " + duration_text(static_cast<double>(total - done) / rate) + " left";
  return out;
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
  const std::string text = progress_text(verb, done, total, seconds, first_done_);
  if (terminal_) {
    std::fputs(("\r\x1b[K" + bar(done, total) + text).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
  } else {
    std::fputs((text + "\n").c_str(), stderr);
  }
}

}  // namespace tftf::cli
