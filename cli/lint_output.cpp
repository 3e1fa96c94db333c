#include "lint_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf_native/path_kind.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {
namespace {

// The result of a system call, again when a signal broke it off.
template <class Call>
auto again(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

Error io_error(ErrorCode code, const std::string& what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kIoSpace;
  return {.code = code,
          .message =
              "Cannot " + what + " " + quote_name(path) + ": " + std::generic_category().message(error) + ".",
          .file = path};
}

bool is_same_file(const struct stat& a, const std::string& path) {
  struct stat b {};
  return again([&] { return ::stat(path.c_str(), &b); }) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Weights, indexes and the configurations beside them; reports of earlier runs are none of these.
bool belongs_to_model(std::string_view name) {
  return name.find(".safetensors") != std::string_view::npos || ends_with(name, "config.json") ||
         ends_with(name, "tokenizer.json") || ends_with(name, "model_index.json");
}

}  // namespace

std::string place_prefix(const std::string& given, bool is_folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::path(given).lexically_normal();
  if (path.is_absolute()) {
    const fs::path here = fs::current_path(error);
    const fs::path relative = path.lexically_relative(here);
    if (!error && !relative.empty() && *relative.begin() != "..") path = relative;
  }
  std::string text = path.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  if (!is_folder) {
    const size_t slash = text.rfind('/');
    text = slash == std::string::npos ? "" : text.substr(0, slash + 1);
  }
  if (text == ".") text.clear();
  if (!text.empty() && text.back() != '/') text += '/';
  return text;
}

Result<void> check_report_target(std::string_view option, const std::string& path,
                                 const std::vector<LintTree>& trees) {
  struct stat info {};
  if (again([&] { return ::stat(path.c_str(), &info); }) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return io_error(ErrorCode::kIoWrite, "look at", path, errno);
  }
  if (S_ISDIR(info.st_mode))
    return Error{
        .code = ErrorCode::kRefusedOutput, .message = quote_name(path) + " is a folder.", .file = path};
  for (const LintTree& tree : trees) {
    for (size_t i = 0; i < tree.paths.size(); ++i) {
      const LintEntry& entry = tree.input.entries[i];
      const bool lone = entry.path == tree.input.main;
      if (!entry.is_folder && (lone || belongs_to_model(entry.path)) && is_same_file(info, tree.paths[i]))
        return Error{.code = ErrorCode::kRefusedOutput,
                     .message = std::string(option) + " " + quote_name(path) +
                                " would overwrite a file that is linted.",
                     .file = path};
    }
  }
  return {};
}

namespace {

// Into a device or a pipe that is there: nothing to be renamed.
Result<void> write_in_place(const std::string& path, std::string_view text) {
  const auto failed = [&](const std::string& what) {
    return io_error(ErrorCode::kIoWrite, what, path, errno);
  };
  // A FIFO that nobody reads is an error, not something to wait for.
  const int file = again([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (file < 0) return failed("open");
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  while (!text.empty()) {
    const ssize_t done = again([&] { return ::write(file, text.data(), text.size()); });
    if (done < 0) {
      const Error error = failed("write");
      ::close(file);
      return error;
    }
    text.remove_prefix(static_cast<size_t>(done));
  }
  return ::close(file) == 0 || errno == EINTR ? Result<void>() : failed("write");
}

}  // namespace

Result<void> write_report(const std::string& path, std::string_view text) {
  const auto kind = path_kind(path);
  if (!kind) return kind.error();
  if (*kind == PathKind::kOther) return write_in_place(path, text);
  const std::filesystem::path place(path);
  const std::string folder = place.parent_path().string();
  return write_small_file(folder.empty() ? "." : folder, place.filename().string(), std::string(text));
}

}  // namespace tftf::cli
