// Small things that all files of the native host need.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
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
    if (result != -1 || errno != EINTR) return result;
  }
}

// "cannot `what` "path": the system's words."; a full disk or quota becomes kIoSpace whatever `code` is.
Error system_error(ErrorCode code, std::string_view what, const std::string& path, int error);

Fingerprint fingerprint_of(const struct stat& info);

}  // namespace tftf
