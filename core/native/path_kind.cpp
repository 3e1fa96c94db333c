#include "tftf_native/path_kind.h"

#include "posix.h"

namespace tftf {

Result<std::optional<struct stat>> look_at_path(const std::string& path) {
  struct stat info {};
  if (retry([&] { return ::stat(path.c_str(), &info); }) == 0) return std::optional(info);
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<struct stat>();
  return system_error(ErrorCode::kIoRead, "look at", path, errno);
}

Result<PathKind> path_kind(const std::string& path) {
  const auto info = look_at_path(path);
  if (!info.ok()) return info.error();
  if (!*info) {
    struct stat link {};
    if (retry([&] { return ::lstat(path.c_str(), &link); }) == 0) return PathKind::kDangling;
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNothing;
    return system_error(ErrorCode::kIoRead, "look at", path, errno);
  }
  if (S_ISDIR((*info)->st_mode)) return PathKind::kFolder;
  return S_ISREG((*info)->st_mode) ? PathKind::kFile : PathKind::kOther;
}

}  // namespace tftf
