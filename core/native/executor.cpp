#include "tftf_native/executor.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "input_files.h"
#include "journal_writer.h"
#include "output_parts.h"
#include "output_target.h"
#include "phase_runner.h"
#include "posix.h"
#include "resident_store.h"
#include "tftf/base/escape.h"
#include "tftf/simd/kernels.h"
#include "tftf_native/path_kind.h"

namespace tftf {
namespace {
namespace fs = std::filesystem;

const KernelTable& kernels_of(const ExecuteOptions& options) {
  return options.kernels != nullptr ? *options.kernels : best_kernels();
}

// Failures after which the same command can go on where this one stopped.
bool can_continue(ErrorCode code) {
  return code == ErrorCode::kIoRead || code == ErrorCode::kIoWrite || code == ErrorCode::kIoSpace ||
         code == ErrorCode::kInterrupted || code == ErrorCode::kRefusedMemory;
}

uint32_t thread_count(const ExecuteOptions& options) {
  return options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
}

class Execution {
 public:
  Execution(Plan& plan, InputFiles& inputs, std::shared_ptr<OutputFolder> folder, const OutputTarget& target,
            const ExecuteOptions& options)
      : plan_(plan),
        inputs_(inputs),
        folder_(std::move(folder)),
        target_(target),
        options_(options),
        parts_(plan, folder_, target, inputs.sides(), options),
        residents_(plan, inputs.files(), kernels_of(options), options.stop),
        run_{.plan = plan,
             .options = options,
             .kernels = kernels_of(options),
             .threads = thread_count(options),
             .inputs = inputs.files(),
             .outputs = parts_.files(),
             .residents = residents_} {}

  // True once something of an earlier or this run is worth keeping.
  bool has_progress() const { return unread_ || run_.resumed || run_.bytes_written != 0; }
  void discard() {
    journal_.reset();
    parts_.discard();
  }

  Result<RunReport> go() {
    TFTF_TRY(open_journal());
    for (size_t phase = 0; phase < plan_.phases().size(); ++phase) {
      if (auto result = go_phase(phase); !result.ok()) return parts_.space_error(std::move(result).error());
    }
    TFTF_TRY(parts_.make(journal_->before()));
    TFTF_TRY(inputs_.look_again());
    if (auto result = parts_.publish(*journal_); !result.ok())
      return parts_.space_error(std::move(result).error());
    return RunReport{.resumed = run_.resumed,
                     .steps_run = run_.steps_run,
                     .steps_skipped = run_.steps_skipped,
                     .bytes_read = run_.bytes_read,
                     .bytes_written = run_.bytes_written};
  }

 private:
  Result<void> open_journal() {
    unread_ = options_.resume;
    auto there = folder_->look(journal_name_);
    if (!there.ok()) return std::move(there).error();
    unread_ = unread_ && *there;
    using OpenMode = OutputFolder::OpenMode;
    auto file = folder_->open(journal_name_, *there ? OpenMode::kOld : OpenMode::kNew);
    if (!file.ok()) return std::move(file).error();
    const std::string path = folder_->path_of(journal_name_);
    if (!(*file)->try_lock())
      return Error{
          .code = ErrorCode::kRefusedOutput,
          .message = "Another process is writing there: it holds the journal " + quote_name(path) + ".",
          .file = path};
    JournalHead head = journal_head(plan_, inputs_.journal_inputs());
    Journal before;
    if (*there && options_.resume) {
      auto journal = read_journal(*folder_, journal_name_);
      if (!journal.ok()) return std::move(journal).error();
      unread_ = false;
      if (*journal) {
        TFTF_TRY(check_journal(**journal, head, path));
        TFTF_TRY(check_journal_state(**journal, plan_, path));
        before = **std::move(journal);
        run_.resumed = true;
      }
    }
    if (!run_.resumed && (*there || !options_.resume)) TFTF_TRY(remove_leftovers());
    TFTF_TRY((*file)->truncate(before.length));
    outputs_known_ = run_.resumed ? before.head.outputs.has_value() : head.outputs.has_value();
    journal_.emplace(plan_, *file, std::move(before), parts_.files(), options_);
    run_.log = &*journal_;
    if (!run_.resumed) {
      TFTF_TRY(journal_->append(journal_head_line(head)));
      TFTF_TRY(folder_->sync());
    }
    return {};
  }

  // Parts of a run that is not continued.
  Result<void> remove_leftovers() {
    auto listed = folder_->list();
    if (!listed.ok()) return std::move(listed).error();
    const bool alone = !target_.single_file && !target_.beside;
    const TargetNames& ours = parts_.names();
    for (const std::string& name : *listed) {
      if (!is_part_name(name)) continue;
      const std::string final = name.substr(0, name.size() - kPartSuffix.size());
      const auto is = [&](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), final) != names.end();
      };
      if (alone || is(ours.finals) || is(ours.sides)) TFTF_TRY(folder_->remove(name));
    }
    return {};
  }

  Result<void> go_phase(size_t index) {
    TFTF_TRY(note_outputs());
    TFTF_TRY(parts_.make(journal_->before()));
    residents_.take_in();
    set_total();
    const Phase phase = plan_.phases()[index];
    const Journal& before = journal_->before();
    std::vector<Value> values(static_cast<size_t>(phase.value_count()));
    const auto take = [&](const auto& by_phase) {
      const auto found = by_phase.find(index);
      if (found == by_phase.end()) return false;
      for (const auto& [at, value] : found->second) {
        // Any step of the item knows how its values are merged.
        const uint64_t step =
            phase.keeps_values ? phase.first + at : plan_.items()[phase.first_item + at].first_step;
        plan_.merge_values(step, values[static_cast<size_t>(at)], value);
      }
      return true;
    };
    if (take(before.results)) {
      skip_phase(phase);
    } else {
      take(before.partial);
      journal_->begin_phase(index);
      auto result = run_phase(run_, index, values);
      const bool keep = result.ok() || can_continue(result.error().code);
      auto flushed = journal_->end_phase(keep);
      if (!result.ok()) return result;
      if (!flushed.ok()) return flushed;
    }
    TFTF_TRY(plan_.finish(index, values));
    // What the next phase does depends on these: they are safe before it writes.
    if (index + 1 < plan_.phases().size() && before.results.count(index) == 0)
      TFTF_TRY(journal_->append(journal_result_line(index, values)));
    return check_journal_state(before, plan_, folder_->path_of(journal_name_));
  }

  void skip_phase(const Phase& phase) {
    for (const Item& item : plan_.items().subspan(phase.first_item, phase.item_count))
      for (uint32_t r : item.residents)
        if (item.tiles != 0) residents_.release(r, static_cast<uint32_t>(item.tiles));
    run_.steps_skipped += phase.count;
    if (!phase.writes) {
      run_.done_bytes += phase.read_bytes;
      return;
    }
    for (const Item& item : plan_.items().subspan(phase.first_item, phase.item_count))
      for (const Extent& out : item.out) run_.done_bytes += out.bytes();
    for (const Copy& copy : plan_.copies().subspan(phase.first_copy, phase.copy_count))
      run_.done_bytes += copy.to.bytes();
    for (const Literal& literal : plan_.literals().subspan(phase.first_literal, phase.literal_count))
      run_.done_bytes += literal.to.bytes();
  }

  // The line of outputs that the head could not give.
  Result<void> note_outputs() {
    const auto is = journal_outputs(plan_);
    if (!is) return {};
    const auto& was = journal_->before().head.outputs;
    if (was && !(*was == *is))
      return Error{.code = ErrorCode::kRefusedJournal,
                   .message = "Cannot continue from journal " + quote_name(folder_->path_of(journal_name_)) +
                              ": its outputs are others; --no-resume discards it and starts anew.",
                   .file = folder_->path_of(journal_name_)};
    if (outputs_known_) return {};
    outputs_known_ = true;
    return journal_->append(journal_outputs_line(*is));
  }

  void set_total() {
    uint64_t total = plan_.written_bytes();
    for (const Phase& phase : plan_.phases()) total += phase.writes ? 0 : phase.read_bytes;
    run_.total_bytes = total;
  }

  Plan& plan_;
  InputFiles& inputs_;
  std::shared_ptr<OutputFolder> folder_;
  const OutputTarget& target_;
  const ExecuteOptions& options_;
  OutputParts parts_;
  ResidentStore residents_;
  RunState run_;
  std::optional<JournalWriter> journal_;
  const std::string journal_name_ = journal_name(target_);
  bool outputs_known_ = false;
  bool unread_ = false;  // there may be a journal, and what it holds is not known
};

// Creates what is missing; `made` gets it, the deepest last.
Result<void> create_folders(const ResolvedFolder& folder, std::vector<fs::path>& made) {
  fs::path at = folder.existing;
  for (const std::string& name : folder.missing) {
    at /= name;
    std::error_code error;
    if (fs::create_directory(at, error)) made.push_back(at);
    if (error) return system_error(ErrorCode::kIoWrite, "create", at.string(), error.value());
  }
  return {};
}

// Folders inside the output that names of the plan lie in ("unet/adapter_model.safetensors").
Result<void> create_subfolders(const TargetNames& names, const fs::path& folder,
                               std::vector<fs::path>& made) {
  for (const auto* list : {&names.finals, &names.sides})
    for (const std::string& name : *list)
      for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
        const fs::path at = folder / name.substr(0, slash);
        std::error_code error;
        if (fs::create_directory(at, error)) made.push_back(at);
        if (error) return system_error(ErrorCode::kIoWrite, "create", at.string(), error.value());
      }
  return {};
}

Result<void> check(const Plan& plan, const InputFiles& inputs, const OutputTarget& target,
                   const TargetNames& names, const ExecuteOptions& options) {
  TFTF_TRY(check_place(target, names, inputs.fingerprints(), options));
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  if (!resolved->missing.empty()) return {};
  auto folder = open_output_folder(target_folder(target));
  if (!folder.ok()) return std::move(folder).error();
  bool continues = false;
  if (options.resume) {
    auto journal = read_journal(**folder, names.journal);
    if (!journal.ok()) return std::move(journal).error();
    continues = journal->has_value();
    if (continues)
      TFTF_TRY(check_journal(**journal, journal_head(plan, inputs.journal_inputs()),
                             (*folder)->path_of(names.journal)));
  }
  return check_contents(**folder, target, names, continues, options);
}

Result<RunReport> run(Plan& plan, InputFiles& inputs, std::shared_ptr<OutputFolder> folder,
                      const OutputTarget& target, const ExecuteOptions& options) {
  Execution execution(plan, inputs, std::move(folder), target, options);
  auto report = execution.go();
  if (report.ok()) return report;
  const ErrorCode code = report.error().code;
  // Refused journals and outputs are not ours to remove.
  if (code == ErrorCode::kRefusedJournal || code == ErrorCode::kRefusedOutput) return report;
  if (!can_continue(code) || !execution.has_progress()) execution.discard();
  return report;
}

}  // namespace

Result<void> check_target(const Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
                          const ExecuteOptions& options) {
  InputFiles files(plan, inputs, options);
  TFTF_TRY(files.look());
  return check(plan, files, target, target_names(plan, target, options), options);
}

Result<std::optional<uint64_t>> journal_tile(const OutputTarget& target) {
  const std::string path = target_folder(target);
  const auto kind = path_kind(path);
  if (!kind.ok()) return kind.error();
  if (*kind != PathKind::kFolder) return std::optional<uint64_t>();
  auto folder = open_output_folder(path);
  if (!folder.ok()) return std::move(folder).error();
  auto journal = read_journal(**folder, journal_name(target));
  if (!journal.ok()) return std::move(journal).error();
  return *journal ? std::optional<uint64_t>((*journal)->head.tile) : std::nullopt;
}

Result<RunReport> execute(Plan& plan, const std::vector<RunInput>& inputs, const OutputTarget& target,
                          const ExecuteOptions& options) {
  InputFiles files(plan, inputs, options);
  TFTF_TRY(files.look());
  if (target.single_file && plan.outputs().size() != 1)
    return Error{.message = "A single file was asked for, and the plan has several."};
  TFTF_TRY(check(plan, files, target, target_names(plan, target, options), options));
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  std::vector<fs::path> made;
  const auto undo = [&](Error error) {
    std::error_code ignored;
    for (auto at = made.rbegin(); at != made.rend(); ++at) fs::remove(*at, ignored);  // only if empty
    return error;
  };
  if (auto created = create_folders(*resolved, made); !created.ok()) return undo(std::move(created).error());
  const TargetNames names = target_names(plan, target, options);
  if (auto created = create_subfolders(names, resolved->path(), made); !created.ok())
    return undo(std::move(created).error());
  // By the name that was given, for messages; "missing/../out" works only without its detour.
  const std::string given = target_folder(target);
  auto folder = open_output_folder(resolved->missing.empty() ? given : resolved->path());
  if (!folder.ok()) return undo(std::move(folder).error());
  auto report = run(plan, files, *folder, target, options);
  if (!report.ok()) return undo(std::move(report).error());
  return report;
}

Result<RunReport> execute(Plan& plan, const std::vector<RunInput>& inputs,
                          std::shared_ptr<OutputFolder> folder, const ExecuteOptions& options) {
  InputFiles files(plan, inputs, options);
  TFTF_TRY(files.look());
  return run(plan, files, std::move(folder), {.path = "."}, options);
}

Result<RunReport> examine(Plan& plan, const std::vector<RunInput>& inputs, const ExecuteOptions& options) {
  InputFiles files(plan, inputs, options);
  TFTF_TRY(files.look());
  FilePool<OutputFile> none(1, [](uint32_t) -> Result<std::shared_ptr<OutputFile>> {
    return Error{.message = "A plan that only measures has an output."};
  });
  ResidentStore residents(plan, files.files(), kernels_of(options), options.stop);
  RunState state{.plan = plan,
                 .options = options,
                 .kernels = kernels_of(options),
                 .threads = thread_count(options),
                 .inputs = files.files(),
                 .outputs = none,
                 .residents = residents};
  for (size_t phase = 0; phase < plan.phases().size(); ++phase) {
    if (plan.phases()[phase].writes && !plan.outputs().empty())
      return Error{.message = "A plan that is only to be examined writes."};
    residents.take_in();
    state.total_bytes = plan.read_bytes();
    std::vector<Value> values(static_cast<size_t>(plan.phases()[phase].value_count()));
    TFTF_TRY(run_phase(state, phase, values));
    TFTF_TRY(plan.finish(phase, values));
  }
  TFTF_TRY(files.look_again());
  return RunReport{.steps_run = state.steps_run, .bytes_read = state.bytes_read};
}

}  // namespace tftf
