// Small things that all files of the native host need.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tftf/base/result.h"
#include "tftf_native/byte_source.h"

namespace tftf {

// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The result of a system call, again when a signal broke it off.
template <class Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if constexpr (std::is_pointer_v<decltype(result)>) {
      if (result != nullptr || errno != EINTR) return result;
    } else {
      if (result != -1 || errno != EINTR) return result;
    }
  }
}

// "cannot `what` "path": the system's words."; a full disk or quota becomes kIoSpace whatever `code` is.
Error system_error(ErrorCode code, std::string_view what, const std::string& path, int error);

Fingerprint fingerprint_of(const struct stat& info);

// Nothing only when there is nothing (ENOENT, ENOTDIR); links are followed. kIoRead: it cannot be told.
Result<std::optional<struct stat>> look_at_path(const std::string& path);

// Opens for reading without waiting for whoever writes to a FIFO, and without becoming anybody's terminal.
inline Descriptor open_to_read(const std::string& path) {
  return Descriptor(
      retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }));
}

}  // namespace tftf
