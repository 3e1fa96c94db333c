#include "tftf_native/executor.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "file_pool.h"
#include "phase_runner.h"
#include "posix.h"
#include "resident_store.h"
#include "tftf/base/escape.h"
#include "tftf/simd/kernels.h"

namespace tftf {
namespace {

constexpr size_t kMaxOpenFiles = 128;
constexpr std::string_view kPartSuffix = ".tftf-part";

class Execution {
 public:
  Execution(Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
            const ExecuteOptions& options)
      : plan_(plan),
        inputs_(inputs),
        target_(target),
        options_(options),
        sources_(inputs.size(), kMaxOpenFiles, [this](uint32_t i) { return open_input(i); }),
        parts_(plan.outputs().size(), kMaxOpenFiles,
               [this](uint32_t i) { return folder_->open(part(i), true); }) {}

  Result<RunReport> go() {
    TFTF_TRY(look_at_inputs());
    TFTF_TRY(open_folder());
    const uint32_t threads =
        options_.threads != 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    ResidentStore residents(plan_, sources_);
    RunState run{.plan = plan_,
                 .options = options_,
                 .kernels = options_.kernels != nullptr ? *options_.kernels : best_kernels(),
                 .threads = threads,
                 .inputs = sources_,
                 .outputs = parts_,
                 .residents = residents};
    run.total_bytes = plan_.written_bytes();
    for (size_t phase = 0; phase < plan_.phases().size(); ++phase) {
      TFTF_TRY(allocate_parts());
      std::vector<Value> values(static_cast<size_t>(plan_.phases()[phase].value_count()));
      TFTF_TRY(run_phase(run, phase, values));
      TFTF_TRY(plan_.finish(phase, values));
    }
    TFTF_TRY(publish());
    return RunReport{.resumed = false,
                     .steps_run = run.steps_run,
                     .steps_skipped = run.steps_skipped,
                     .bytes_read = run.bytes_read,
                     .bytes_written = run.bytes_written};
  }

 private:
  std::string final_name(size_t i) const {
    if (target_.single_file) return std::filesystem::path(target_.path).filename().string();
    return plan_.outputs()[i].name;
  }
  std::string part(size_t i) const { return final_name(i) + std::string(kPartSuffix); }

  Result<std::shared_ptr<ByteSource>> open_input(uint32_t i) {
    auto source = options_.open_input ? options_.open_input(inputs_[i]) : open_file_source(inputs_[i].path);
    if (!source.ok()) return source;
    auto now = (*source)->fingerprint();
    if (!now.ok()) return std::move(now).error();
    if (!(*now == seen_[i])) return changed(i);
    return source;
  }

  Error changed(size_t i) const {
    return {.code = ErrorCode::kIoChanged,
            .message = "Input " + quote_name(inputs_[i].path) + " has changed since its header was read.",
            .file = inputs_[i].path};
  }

  Result<void> look_at_inputs() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      auto now = file_fingerprint(inputs_[i].path);
      if (!now.ok()) return std::move(now).error();
      if (now->size != plan_.inputs()[i].size || (inputs_[i].seen && !(*inputs_[i].seen == *now)))
        return changed(i);
      seen_.push_back(*now);
    }
    return {};
  }

  Result<void> open_folder() {
    std::filesystem::path path(target_.path);
    if (target_.single_file) path = path.parent_path();
    if (path.empty()) path = ".";
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return system_error(ErrorCode::kIoWrite, "create", path.string(), error.value());
    auto folder = open_output_folder(path.string());
    if (!folder.ok()) return std::move(folder).error();
    folder_ = *std::move(folder);
    return {};
  }

  Result<void> allocate_parts() {
    for (; allocated_ < plan_.outputs().size() && plan_.outputs()[allocated_].known; ++allocated_) {
      auto file = parts_.get(static_cast<uint32_t>(allocated_));
      if (!file.ok()) return std::move(file).error();
      TFTF_TRY((*file)->allocate(plan_.outputs()[allocated_].size));
    }
    return {};
  }

  Result<void> publish() {
    for (uint32_t i = 0; i < plan_.outputs().size(); ++i) {
      auto file = parts_.get(i);
      if (!file.ok()) return std::move(file).error();
      TFTF_TRY((*file)->sync());
    }
    parts_.close_all();
    for (size_t i = 0; i < plan_.outputs().size(); ++i) TFTF_TRY(folder_->rename(part(i), final_name(i)));
    for (const SideOutput& side : plan_.sides())
      if (!side.is_index) TFTF_TRY(write_side(side));
    TFTF_TRY(folder_->sync());
    for (const SideOutput& side : plan_.sides())
      if (side.is_index) TFTF_TRY(write_side(side));
    return folder_->sync();
  }

  Result<void> write_side(const SideOutput& side) {
    const std::string name = side.name + std::string(kPartSuffix);
    auto file = folder_->open(name, false);
    if (!file.ok()) return std::move(file).error();
    if (side.copied) {
      const std::string path = options_.side_folder + "/" + side.name;
      auto from = open_file_source(path);
      if (!from.ok()) return std::move(from).error();
      std::vector<std::byte> buffer;
      TFTF_TRY((*file)->copy(0, **from, 0, (*from)->size(), buffer));
      struct stat info {};
      if (::stat(path.c_str(), &info) != 0) return system_error(ErrorCode::kIoRead, "look at", path, errno);
      TFTF_TRY((*file)->set_attributes(info.st_mode, fingerprint_of(info).mtime_ns));
    } else {
      TFTF_TRY((*file)->write(0, as_bytes(side.bytes)));
    }
    TFTF_TRY((*file)->sync());
    return folder_->rename(name, side.name);
  }

  Plan& plan_;
  const std::vector<RunInput>& inputs_;
  const OutputTarget& target_;
  const ExecuteOptions& options_;
  FilePool<ByteSource> sources_;
  FilePool<OutputFile> parts_;
  std::shared_ptr<OutputFolder> folder_;
  std::vector<Fingerprint> seen_;
  size_t allocated_ = 0;
};

}  // namespace

Result<RunReport> execute(Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
                          const ExecuteOptions& options) {
  return Execution(plan, inputs, target, options).go();
}

}  // namespace tftf
