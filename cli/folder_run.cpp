#include "folder_run.h"

#include <sys/stat.h>

#include "options.h"
#include "plan_run.h"
#include "tftf/base/escape.h"
#include "tftf_native/source_removal.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

// Every shard of a folder counts, whatever an index says.
Result<NativeModel> open_folder(const Session& session, const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = quote_name(path) + " is a file where a folder is needed.",
                 .file = path};
  }
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  return read_model(path, options);
}

}  // namespace

void add_folder_options(CLI::App& command, FolderOptions& options) {
  command.add_option("--indir", options.input, "Folder with the shards to read")
      ->type_name("DIR")
      ->required()
      ->take_last();
  command
      .add_option("--outdir", options.output, "Folder to write to; it may hold the outputs of earlier passes")
      ->type_name("DIR")
      ->required()
      ->take_last()
      ->group(kOutputGroup);
  command.add_flag("--dry-run", options.dry_run, "Print the plan and the account, write nothing")
      ->group(kOutputGroup);
  command
      .add_flag("--strict", options.strict, "Refuse what a reader would misread where that is a warning else")
      ->group(kOutputGroup);
  command.add_flag("--overwrite", options.overwrite, "Replace files of the same names")->group(kOutputGroup);
  command.add_flag("--no-resume", options.no_resume, "Start anew where an earlier run was interrupted")
      ->group(kOutputGroup);
  command
      .add_flag("--delete-source", options.delete_source,
                "Remove the source shards that were read, once all outputs are safely on the disk")
      ->group(kOutputGroup);
  add_size(command, "--tile-size", options.tile_size, "Bytes of one step")->group("");
}

int run_folder_tool(const Session& session, const FolderOptions& options,
                    std::shared_ptr<const colibri::FolderTool> tool) {
  Result<NativeModel> source = open_folder(session, options.input);
  if (!source) return session.fail(source.error());
  std::optional<NativeModel> existing;
  struct stat info {};
  if (::stat(options.output.c_str(), &info) == 0) {
    Result<NativeModel> folder = open_folder(session, options.output);
    if (!folder) return session.fail(folder.error());
    existing.emplace(*std::move(folder));
  }

  const OutputTarget target{.path = options.output, .beside = true};
  colibri::FolderRequest request{.input = options.input,
                                 .output = options.output,
                                 .dry_run = options.dry_run,
                                 .strict = options.strict};
  if (options.tile_size) {
    request.tile_bytes = *options.tile_size;
  } else if (!options.no_resume) {
    const auto tile = journal_tile(target);
    if (!tile) return session.fail(tile.error());
    request.tile_bytes = tile->value_or(kDefaultTileBytes);
  }
  colibri::FolderPlanner planner(source->checkpoint, existing ? &existing->checkpoint : nullptr,
                                 std::move(request), std::move(tool));
  serve(planner, *source);
  Result<colibri::FolderPlan> made = planner.take();
  if (!made) return session.fail(made.error());
  for (const std::string& note : made->notes) session.note(note);

  ExecuteOptions how = execute_options(session);
  how.resume = !options.no_resume;
  how.overwrite = options.overwrite;
  how.side_folder = source->folder;
  how.input_folder = source->folder;
  PlanRun run{.plan = made->plan,
              .inputs = run_inputs(*source, made->plan),
              .target = target,
              .how = std::move(how),
              .dry_run = options.dry_run,
              .check_space = true,
              .account = [&](const RunReport* done) {
                return done == nullptr
                           ? made->account
                           : made->final_account(done->bytes_read, done->bytes_written, done->resumed);
              }};
  if (options.delete_source) {
    run.afterwards = [inputs = run.inputs, &source] { return remove_sources(inputs, source->folder); };
  }
  return run_plan(session, std::move(run));
}

}  // namespace tftf::cli
