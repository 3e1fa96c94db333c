#include "input_files.h"

#include <algorithm>

#include "output_target.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr size_t kMaxOpenInputs = 128;

Error changed_input(const std::string& path, const std::string& when) {
  return {.code = ErrorCode::kIoChanged,
          .message = "Input " + quote_name(path) + " has changed " + when + ".",
          .file = path};
}

}  // namespace

InputFiles::InputFiles(const Plan& plan, const std::vector<RunInput>& inputs, const ExecuteOptions& options)
    : plan_(plan),
      inputs_(inputs),
      options_(options),
      files_(kMaxOpenInputs, [this](uint32_t i) { return open(i); }) {}

Result<void> InputFiles::look() {
  if (inputs_.size() != plan_.inputs().size()) return Error{.message = "The plan has other inputs."};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto is = now(i);
    if (!is.ok()) return std::move(is).error();
    if (is->size != plan_.inputs()[i].size || (inputs_[i].seen && !(*inputs_[i].seen == *is)))
      return changed_input(inputs_[i].path, "since its header was read");
    first_.push_back(*is);
  }
  sides_ = options_.sides;
  for (const SideOutput& side : plan_.sides()) {
    if (!side.copied) continue;
    // Opened, so that one that cannot be read is known before anything is written.
    const std::string path = side_path(options_, side);
    auto source = open_file_source(path);
    if (!source.ok()) return std::move(source).error();
    auto is = (*source)->fingerprint();
    if (!is.ok()) return std::move(is).error();
    const auto same = [&](const SeenFile& file) { return file.path == path; };
    if (std::none_of(sides_.begin(), sides_.end(), same)) sides_.push_back({path, *is});
  }
  return look_at_sides("since it was read");
}

Result<void> InputFiles::look_again() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto is = now(i);
    if (!is.ok()) return std::move(is).error();
    if (!(*is == first_[i])) return changed_input(inputs_[i].path, "while it was read");
  }
  return look_at_sides("while the run went on");
}

std::vector<JournalInput> InputFiles::journal_inputs() const {
  std::vector<JournalInput> list;
  for (size_t i = 0; i < inputs_.size(); ++i)
    list.push_back({.path = plan_.inputs()[i].path,
                    .size = first_[i].size,
                    .mtime_ns = first_[i].mtime_ns,
                    .header_sha256 = plan_.inputs()[i].header_sha256});
  return list;
}

Result<std::shared_ptr<ByteSource>> InputFiles::open(uint32_t i) {
  auto source = options_.open_input ? options_.open_input(inputs_[i]) : open_file_source(inputs_[i].path);
  if (!source.ok()) return source;
  auto is = (*source)->fingerprint();
  if (!is.ok()) return std::move(is).error();
  if (!(*is == first_[i])) return changed_input(inputs_[i].path, "while it was read");
  return source;
}

Result<Fingerprint> InputFiles::now(size_t i) {
  if (!options_.open_input) return file_fingerprint(inputs_[i].path);
  auto source = options_.open_input(inputs_[i]);
  if (!source.ok()) return std::move(source).error();
  return (*source)->fingerprint();
}

Result<void> InputFiles::look_at_sides(const std::string& when) const {
  for (const SeenFile& file : sides_) {
    auto is = file_fingerprint(file.path);
    if (!is.ok()) return std::move(is).error();
    if (!(*is == file.seen)) return changed_input(file.path, when);
  }
  return {};
}

}  // namespace tftf
