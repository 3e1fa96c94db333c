#include "tftf_native/output_folder.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {

Result<void> OutputFile::copy(uint64_t offset, ByteSource& from, uint64_t from_offset, uint64_t bytes,
                              std::vector<std::byte>& buffer) {
  while (bytes != 0) {
    buffer.resize(static_cast<size_t>(std::min(bytes, kMaxWrite)));
    TFTF_TRY(from.read(from_offset, buffer));
    TFTF_TRY(write(offset, buffer));
    offset += buffer.size();
    from_offset += buffer.size();
    bytes -= buffer.size();
  }
  return {};
}

namespace {

class PosixFile : public OutputFile {
 public:
  PosixFile(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<void> allocate(uint64_t size) override {
    if (size > static_cast<uint64_t>(std::numeric_limits<off_t>::max()))
      return system_error(ErrorCode::kIoWrite, "create", path_, EFBIG);
    if (size != 0) {
      // Not posix_fallocate(), which writes into every block where the file system cannot do this.
      if (retry([&] { return ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size)); }) == 0) return {};
      if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return system_error(ErrorCode::kIoWrite, "make room for", path_, errno);
    }
    struct stat info {};
    if (retry([&] { return ::fstat(fd_.get(), &info); }) == 0 && static_cast<uint64_t>(info.st_size) >= size)
      return {};
    return truncate(size);
  }

  Result<void> truncate(uint64_t size) override {
    if (retry([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0)
      return system_error(ErrorCode::kIoWrite, "set the size of", path_, errno);
    return {};
  }

  bool try_lock() override {
    return retry([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) == 0 || errno != EWOULDBLOCK;
  }

  Result<void> write(uint64_t offset, Bytes bytes) override {
    while (!bytes.empty()) {
      const size_t piece = std::min<size_t>(bytes.size(), kMaxWrite);
      const ssize_t put =
          retry([&] { return ::pwrite(fd_.get(), bytes.data(), piece, static_cast<off_t>(offset)); });
      if (put < 0) return system_error(ErrorCode::kIoWrite, "write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(put));
      offset += static_cast<uint64_t>(put);
    }
    return {};
  }

  Result<void> copy(uint64_t offset, ByteSource& from, uint64_t from_offset, uint64_t bytes,
                    std::vector<std::byte>& buffer) override {
    while (bytes != 0 && from.descriptor() >= 0 && in_kernel_.load(std::memory_order_relaxed)) {
      auto in = static_cast<off_t>(from_offset);
      auto out = static_cast<off_t>(offset);
      const ssize_t done = retry([&] {
        return ::copy_file_range(from.descriptor(), &in, fd_.get(), &out, static_cast<size_t>(bytes), 0);
      });
      // Which errors mean "not between these files" differs by kernel and file system; anything else comes
      // again from the read or write below, in clearer words. 0 before the end: some file systems do that.
      if (done <= 0) {
        if (done < 0 && (errno == ENOSPC || errno == EDQUOT))
          return system_error(ErrorCode::kIoWrite, "write", path_, errno);
        in_kernel_.store(false, std::memory_order_relaxed);
        break;
      }
      offset += static_cast<uint64_t>(done);
      from_offset += static_cast<uint64_t>(done);
      bytes -= static_cast<uint64_t>(done);
    }
    return OutputFile::copy(offset, from, from_offset, bytes, buffer);
  }

  void start_writeback(uint64_t offset, uint64_t bytes) override {
    ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                      SYNC_FILE_RANGE_WRITE);
  }

  Result<void> sync() override {
    if (retry([&] { return ::fsync(fd_.get()); }) != 0)
      return system_error(ErrorCode::kIoWrite, "sync", path_, errno);
    return {};
  }

  Result<void> set_attributes(uint32_t mode, int64_t mtime_ns) override {
    struct timespec times[2];
    times[0].tv_sec = 0;
    times[0].tv_nsec = UTIME_OMIT;
    int64_t seconds = mtime_ns / 1'000'000'000;
    int64_t rest = mtime_ns % 1'000'000'000;
    if (rest < 0) {
      --seconds;
      rest += 1'000'000'000;
    }
    times[1].tv_sec = seconds;
    times[1].tv_nsec = rest;
    if (retry([&] { return ::fchmod(fd_.get(), mode & 07777); }) != 0 ||
        retry([&] { return ::futimens(fd_.get(), times); }) != 0)
      return system_error(ErrorCode::kIoWrite, "set mode and time of", path_, errno);
    return {};
  }

 private:
  std::string path_;
  Descriptor fd_;
  std::atomic<bool> in_kernel_{true};
};

class PosixFolder : public OutputFolder {
 public:
  PosixFolder(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_of(const std::string& name) const override {
    return path_.empty() || path_.back() == '/' ? path_ + name : path_ + "/" + name;
  }

  Result<std::vector<std::string>> list() override {
    // A descriptor of its own: readdir() moves the position.
    const int own = retry([&] { return ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    DIR* dir = own < 0 ? nullptr : retry([&] { return ::fdopendir(own); });
    if (dir == nullptr) {
      const int error = errno;
      if (own >= 0) ::close(own);
      return system_error(ErrorCode::kIoWrite, "list", path_, error);
    }
    std::vector<std::string> names;
    for (errno = 0; const dirent* entry = ::readdir(dir); errno = 0) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return system_error(ErrorCode::kIoWrite, "list", path_, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<std::optional<EntryInfo>> look(const std::string& name) override {
    struct stat info {};
    if (retry([&] { return ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW); }) != 0) {
      if (errno == ENOENT) return std::optional<EntryInfo>();
      return system_error(ErrorCode::kIoWrite, "look at", path_of(name), errno);
    }
    return std::optional<EntryInfo>({.fingerprint = fingerprint_of(info),
                                     .regular = S_ISREG(info.st_mode),
                                     .allocated = static_cast<uint64_t>(info.st_blocks) * 512});
  }

  Result<std::shared_ptr<OutputFile>> open(const std::string& name, OpenMode mode) override {
    const int flags =
        O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (mode == OpenMode::kNew ? O_CREAT | O_EXCL : 0);
    Descriptor fd(retry([&] { return ::openat(fd_.get(), name.c_str(), flags, 0666); }));
    if (!fd)
      return system_error(ErrorCode::kIoWrite, mode == OpenMode::kNew ? "create" : "open", path_of(name),
                          errno);
    struct stat info {};
    if (retry([&] { return ::fstat(fd.get(), &info); }) != 0)
      return system_error(ErrorCode::kIoWrite, "look at", path_of(name), errno);
    if (!S_ISREG(info.st_mode))
      return Error{.code = ErrorCode::kIoWrite,
                   .message = "Cannot write " + quote_name(path_of(name)) + ": it is not a regular file.",
                   .file = path_of(name)};
    return std::shared_ptr<OutputFile>(std::make_shared<PosixFile>(path_of(name), std::move(fd)));
  }

  Result<std::string> read(const std::string& name, uint64_t limit) override {
    auto source = open_file_source(path_of(name));
    if (!source.ok()) return std::move(source).error();
    const uint64_t size = (*source)->size();
    if (size > limit)
      return Error{.code = ErrorCode::kIoRead,
                   .message = "File " + quote_name(path_of(name)) + " is too large.",
                   .file = path_of(name)};
    std::string text(static_cast<size_t>(size), '\0');
    TFTF_TRY((*source)->read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
    return text;
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (retry([&] { return ::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()); }) != 0)
      return system_error(ErrorCode::kIoWrite, "rename " + quote_name(path_of(from)) + " to", path_of(to),
                          errno);
    const size_t slash = to.rfind('/');
    return slash == std::string::npos ? Result<void>() : sync_subfolder(to.substr(0, slash));
  }

  Result<void> remove(const std::string& name) override {
    if (retry([&] { return ::unlinkat(fd_.get(), name.c_str(), 0); }) != 0 && errno != ENOENT)
      return system_error(ErrorCode::kIoWrite, "remove", path_of(name), errno);
    return {};
  }

  Result<void> sync() override {
    // Some file systems have nothing to sync in a folder and say so by EINVAL.
    if (retry([&] { return ::fsync(fd_.get()); }) != 0 && errno != EINVAL)
      return system_error(ErrorCode::kIoWrite, "sync", path_, errno);
    return {};
  }

  std::optional<uint64_t> free_bytes() const override {
    struct statvfs info {};
    if (retry([&] { return ::fstatvfs(fd_.get(), &info); }) != 0) return std::nullopt;
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  // sync() reaches the folder itself alone.
  Result<void> sync_subfolder(const std::string& name) {
    Descriptor fd(
        retry([&] { return ::openat(fd_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd) return system_error(ErrorCode::kIoWrite, "open", path_of(name), errno);
    if (retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL)
      return system_error(ErrorCode::kIoWrite, "sync", path_of(name), errno);
    return {};
  }

  std::string path_;
  Descriptor fd_;
};

}  // namespace

Result<std::shared_ptr<OutputFolder>> open_output_folder(const std::string& path) {
  Descriptor fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd) return system_error(ErrorCode::kIoWrite, "open", path, errno);
  return std::shared_ptr<OutputFolder>(std::make_shared<PosixFolder>(path, std::move(fd)));
}

}  // namespace tftf
