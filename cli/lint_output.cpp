#include "lint_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf::cli {
namespace {

constexpr size_t kMaxConfig = 1 << 20;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error io_error(ErrorCode code, const std::string& what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kIoSpace;
  return {.code = code,
          .message =
              "Cannot " + what + " " + quote_name(path) + ": " + std::generic_category().message(error) + ".",
          .file = path};
}

bool is_same_file(const struct stat& a, const std::string& path) {
  struct stat b {};
  return ::stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Weights, indexes and the configurations beside them; reports of earlier runs are none of these.
bool belongs_to_model(std::string_view name) {
  return name.find(".safetensors") != std::string_view::npos || ends_with(name, "config.json") ||
         ends_with(name, "tokenizer.json") || ends_with(name, "model_index.json");
}

}  // namespace

Result<std::string> read_small_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file)
    return io_error(errno == ENOENT ? ErrorCode::kUsagePath : ErrorCode::kIoRead, "open", path, errno);
  std::string text(kMaxConfig + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return io_error(ErrorCode::kIoRead, "read", path, errno);
  if (text.size() > kMaxConfig)
    return Error{
        .code = ErrorCode::kUsage, .message = quote_name(path) + " is longer than 1 MiB.", .file = path};
  return text;
}

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

Result<void> check_report_target(const std::string& path, const std::vector<LintTree>& trees) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  if (S_ISDIR(info.st_mode))
    return Error{
        .code = ErrorCode::kRefusedOutput, .message = quote_name(path) + " is a folder.", .file = path};
  for (const LintTree& tree : trees) {
    for (size_t i = 0; i < tree.paths.size(); ++i) {
      const LintEntry& entry = tree.input.entries[i];
      const bool lone = entry.path == tree.input.main;
      if (!entry.is_folder && (lone || belongs_to_model(entry.path)) && is_same_file(info, tree.paths[i]))
        return Error{.code = ErrorCode::kRefusedOutput,
                     .message = "--output " + quote_name(path) + " would overwrite a file that is linted.",
                     .file = path};
    }
  }
  return {};
}

Result<void> write_report(const std::string& path, std::string_view text) {
  struct stat info {};
  const bool in_place = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string part = in_place ? path : path + ".tftf-part";
  // A FIFO that nobody reads is an error, not something to wait for.
  const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) return io_error(ErrorCode::kIoWrite, "create", part, errno);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  File file(::fdopen(descriptor, "wb"), std::fclose);
  if (!file) {
    const int error = errno;
    ::close(descriptor);
    return io_error(ErrorCode::kIoWrite, "create", part, error);
  }
  bool fine =
      std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0;
  int error = errno;
  if (fine && !in_place && std::rename(part.c_str(), path.c_str()) != 0) {
    fine = false;
    error = errno;
  }
  if (fine) return {};
  if (!in_place) ::unlink(part.c_str());
  return io_error(ErrorCode::kIoWrite, "write", path, error);
}

}  // namespace tftf::cli
