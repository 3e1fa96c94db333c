#include "tftf_native/model_reader.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <unordered_map>

#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

std::string reason_text(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] + 32);
  return text;
}

std::string join(const std::string& folder, const std::string& name) {
  if (folder == ".") return name;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

// What a name in the folder is. Nothing when there is no such file.
std::optional<FileEntry> look_at(const std::string& folder, const std::string& name) {
  FileEntry entry;
  entry.name = name;
  const std::string path = join(folder, name);
  struct stat info {};
  if (retry([&] { return ::stat(path.c_str(), &info); }) != 0) {
    const int error = errno;
    if (error == ENOTDIR) return std::nullopt;
    entry.unreadable = reason_text(error);
    if (error != ENOENT) return entry;
    // A link to nothing is a file that cannot be read, not one that is not there.
    struct stat link {};
    if (retry([&] { return ::lstat(path.c_str(), &link); }) == 0) {
      entry.regular = false;
      entry.unreadable = "it is a link to nothing";
      return entry;
    }
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    entry.unreadable = reason_text(errno);
    return entry;
  }
  entry.size = static_cast<uint64_t>(info.st_size);
  entry.regular = S_ISREG(info.st_mode);
  entry.folder = S_ISDIR(info.st_mode);
  return entry;
}

Result<std::vector<FileEntry>> list_folder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(retry([&] { return ::opendir(folder.c_str()); }),
                                                   ::closedir);
  if (!stream) return system_error(ErrorCode::kIoRead, "list", folder, errno);
  std::vector<FileEntry> files;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (!entry) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (auto file = look_at(folder, name)) files.push_back(*std::move(file));
  }
  if (errno != 0) return system_error(ErrorCode::kIoRead, "list", folder, errno);
  std::sort(files.begin(), files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  return files;
}

// Serves the reader's requests. The buffer is kept: headers are read one after the other.
class RangeReader {
 public:
  explicit RangeReader(const std::string& folder) : folder_(folder) {}

  // Reads the range, or says why not.
  std::optional<std::string> read(const ReadRequest& request) {
    const std::string path = join(folder_, request.file);
    const Descriptor file = open_to_read(path);
    if (!file) return reason_text(errno);
    struct stat info {};
    if (retry([&] { return ::fstat(file.get(), &info); }) != 0) return reason_text(errno);
    if (!S_ISREG(info.st_mode)) return "it is not a regular file";
    seen_.emplace(request.file, fingerprint_of(info));
    if (request.range.length > capacity_) {
      buffer_.reset(new std::byte[request.range.length]);
      capacity_ = request.range.length;
    }
    for (filled_ = 0; filled_ < request.range.length;) {
      const ssize_t got = retry([&] {
        return ::pread(file.get(), buffer_.get() + filled_, request.range.length - filled_,
                       static_cast<off_t>(request.range.offset + filled_));
      });
      if (got < 0) return reason_text(errno);
      if (got == 0) break;
      filled_ += static_cast<uint64_t>(got);
    }
    return std::nullopt;
  }
  Bytes bytes() const { return {buffer_.get(), filled_}; }
  std::optional<Fingerprint> seen(const std::string& file) const {
    const auto found = seen_.find(file);
    if (found == seen_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::string folder_;
  std::unique_ptr<std::byte[]> buffer_;
  uint64_t capacity_ = 0;
  uint64_t filled_ = 0;
  std::unordered_map<std::string, Fingerprint> seen_;
};

bool is_index_path(const std::string& name) {
  constexpr std::string_view kJson = ".json";
  return name.size() >= kJson.size() && name.compare(name.size() - kJson.size(), kJson.size(), kJson) == 0;
}

}  // namespace

std::string NativeModel::path_of(const std::string& name) const {
  // Of another model: other_model() has put its folder before the name.
  return name.find("//") != std::string::npos ? name : join(folder, name);
}

Result<NativeListing> list_model(const std::string& path) {
  const auto looked = look_at_path(path);
  if (!looked.ok()) return looked.error();
  if (!*looked)
    return Error{
        .code = ErrorCode::kUsagePath, .message = quote_name(path) + " does not exist.", .file = path};
  const struct stat& info = **looked;
  NativeListing result;
  result.listing.given = path;
  if (S_ISDIR(info.st_mode)) {
    result.folder = path;
    while (result.folder.size() > 1 && result.folder.back() == '/') result.folder.pop_back();
    result.listing.kind = ModelListing::Kind::kFolder;
    auto files = list_folder(result.folder);
    if (!files) return files.error();
    result.listing.files = *std::move(files);
    return result;
  }
  if (!S_ISREG(info.st_mode))
    return Error{.code = ErrorCode::kIoRead,
                 .message = quote_name(path) + " is neither a regular file nor a folder.",
                 .file = path};
  const size_t slash = path.rfind('/');
  result.folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  result.listing.main = slash == std::string::npos ? path : path.substr(slash + 1);
  result.listing.kind =
      is_index_path(result.listing.main) ? ModelListing::Kind::kIndex : ModelListing::Kind::kFile;
  if (auto file = look_at(result.folder, result.listing.main))
    result.listing.files.push_back(*std::move(file));
  return result;
}

Result<NativeModel> read_model(const std::string& path, ReaderOptions options) {
  auto listed = list_model(path);
  if (!listed) return listed.error();
  NativeModel model;
  model.folder = std::move(listed->folder);
  CheckpointReader reader(std::move(listed->listing), options);
  RangeReader ranges(model.folder);
  while (!reader.done()) {
    for (const std::string& name : reader.want_files()) reader.add_file(name, look_at(model.folder, name));
    for (const ReadRequest& request : reader.want()) {
      if (auto reason = ranges.read(request)) {
        const std::string failed = model.path_of(request.file);
        model.failed.push_back({.code = ErrorCode::kIoRead,
                                .message = "Cannot read " + quote_name(failed) + ": " + *reason + ".",
                                .file = failed});
        reader.fail(request, *std::move(reason));
      } else {
        reader.supply(request, ranges.bytes());
      }
    }
  }
  auto checkpoint = reader.take();
  if (!checkpoint) return std::move(checkpoint).error();
  model.checkpoint = *std::move(checkpoint);
  for (const Shard& shard : model.checkpoint.shards) model.seen.push_back(ranges.seen(shard.name));
  const auto note = [&](const std::string& name) {
    if (const auto seen = ranges.seen(name)) model.sides.push_back({model.path_of(name), *seen});
  };
  for (const SideFile& file : model.checkpoint.side_files) note(file.name);
  if (model.checkpoint.index) note(model.checkpoint.index->file);
  return model;
}

}  // namespace tftf
