#include <system_error>

#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, Descriptor fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  uint64_t size() const override { return size_; }

  Result<Fingerprint> fingerprint() const override {
    struct stat info {};
    if (retry([&] { return ::fstat(fd_.get(), &info); }) != 0)
      return system_error(ErrorCode::kIoRead, "look at", path_, errno);
    return fingerprint_of(info);
  }

  Result<void> read(uint64_t offset, MutableBytes into) override {
    while (!into.empty()) {
      const ssize_t got =
          retry([&] { return ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset)); });
      if (got < 0) return system_error(ErrorCode::kIoRead, "read", path_, errno);
      if (got == 0)
        return Error{.code = ErrorCode::kIoChanged,
                     .message = "Input " + quote_name(path_) + " has become shorter while it was read.",
                     .file = path_};
      into = into.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

  void advise(uint64_t offset, uint64_t bytes) override {
    ::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
  }

  int descriptor() const override { return fd_.get(); }

 private:
  std::string path_;
  Descriptor fd_;
  uint64_t size_;
};

}  // namespace

Error system_error(ErrorCode code, std::string_view what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kIoSpace;
  return {.code = code,
          .message = "Cannot " + std::string(what) + " " + quote_name(path) + ": " +
                     std::generic_category().message(error) + ".",
          .file = path};
}

Fingerprint fingerprint_of(const struct stat& info) {
  return {.size = static_cast<uint64_t>(info.st_size),
          .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
          .device = info.st_dev,
          .inode = info.st_ino};
}

Result<std::shared_ptr<ByteSource>> open_file_source(const std::string& path) {
  Descriptor fd = open_to_read(path);
  if (!fd) return system_error(ErrorCode::kIoRead, "open", path, errno);
  struct stat info {};
  if (retry([&] { return ::fstat(fd.get(), &info); }) != 0)
    return system_error(ErrorCode::kIoRead, "look at", path, errno);
  if (!S_ISREG(info.st_mode))
    return Error{.code = ErrorCode::kIoRead,
                 .message = "Cannot read " + quote_name(path) + ": it is not a regular file.",
                 .file = path};
  return std::shared_ptr<ByteSource>(
      std::make_shared<FileSource>(path, std::move(fd), static_cast<uint64_t>(info.st_size)));
}

Result<Fingerprint> file_fingerprint(const std::string& path) {
  struct stat info {};
  if (retry([&] { return ::stat(path.c_str(), &info); }) != 0)
    return system_error(ErrorCode::kIoRead, "look at", path, errno);
  return fingerprint_of(info);
}

}  // namespace tftf
