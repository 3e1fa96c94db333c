#include "folder_run.h"

#include <algorithm>
#include <filesystem>

#include "commands.h"
#include "plan_run.h"
#include "tftf/base/escape.h"
#include "tftf/command/colibri_request.h"
#include "tftf_native/file_digest.h"
#include "tftf_native/path_kind.h"
#include "tftf_native/source_removal.h"
#include "transform_run.h"

namespace tftf::cli {

Result<NativeModel> open_shard_folder(const Session& session, const std::string& path) {
  const auto kind = path_kind(path);
  if (!kind) return kind.error();
  if (*kind == PathKind::kFile || *kind == PathKind::kOther) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = quote_name(path) + " is a file where a folder is needed.",
                 .file = path};
  }
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  return read_model(path, options);
}

namespace {

// The text about the outputs by their digests, several files at a time.
Result<std::string> manifest_text(const Session& session, const Transform& made, const std::string& folder) {
  std::vector<std::string> paths;
  for (const Output& output : made.plan.outputs())
    paths.push_back((std::filesystem::path(folder) / output.name).string());
  auto digests = file_digests(paths, execute_options(session).threads);
  if (!digests) return std::move(digests).error();
  return made.manifest(made.plan, *digests);
}

Result<void> remove_consumed(const NativeModel& source, const Transform& made) {
  std::vector<RunInput> inputs;
  for (RunInput& input : run_inputs(source, made.plan)) {
    const std::string name = std::filesystem::path(input.path).filename().string();
    if (std::find(made.consumed.begin(), made.consumed.end(), name) != made.consumed.end())
      inputs.push_back(std::move(input));
  }
  return remove_sources(inputs, source.folder);
}

}  // namespace

int run_folder_tool(Session& session, const CommandLine& line) {
  const std::string output = line.value("outdir");
  const bool dry_run = line.has("dry-run"), overwrite = line.has("overwrite") || line.has("force");
  Result<NativeModel> source = open_shard_folder(session, line.value("indir"));
  if (!source) return session.fail(source.error());
  if (!source->failed.empty()) return session.fail(source->failed.front());
  std::optional<NativeModel> existing;
  const auto kind = path_kind(output);
  if (!kind) return session.fail(kind.error());
  if (*kind != PathKind::kNothing && *kind != PathKind::kDangling) {
    Result<NativeModel> folder = open_shard_folder(session, output);
    if (!folder) return session.fail(folder.error());
    existing.emplace(*std::move(folder));
  }

  const OutputTarget target{.path = output, .beside = true};
  TransformRequest request{.command = std::string(line.command->info->path),
                           .tool = colibri::folder_tool(line),
                           .existing = existing ? &existing->checkpoint : nullptr,
                           .input = line.value("indir"),
                           .output = output,
                           .dry_run = dry_run};
  if (!line.has("no-resume")) {
    const auto tile = journal_tile(target);
    if (!tile) return session.fail(tile.error());
    request.tile_bytes = tile->value_or(kDefaultTileBytes);
    request.continues = tile->has_value();
  }
  if (const auto asked = line.number("tile-size")) request.tile_bytes = *asked;
  Result<Transform> made = make_plan(*source, std::move(request));
  if (!made) return session.fail(made.error());
  for (const std::string& note : made->notes) session.note(note);

  ExecuteOptions how = execute_options(session);
  how.resume = !line.has("no-resume");
  how.overwrite = overwrite;
  how.side_folder = source->folder;
  how.input_folder = source->folder;
  how.sides = source->sides;
  if (!made->manifest_name.empty()) {
    how.last_name = made->manifest_name;
    how.last_text = [&] { return manifest_text(session, *made, output); };
  }
  PlanRun run{.line = line,
              .plan = made->plan,
              .inputs = run_inputs(*source, made->plan),
              .target = target,
              .how = std::move(how),
              .dry_run = dry_run,
              .ask_first = true,
              .account = [&](const RunReport* done) {
                return done == nullptr
                           ? made->account
                           : made->final_account(done->bytes_read, done->bytes_written, done->resumed);
              }};
  run.afterwards = [&]() -> Result<void> {
    return line.has("delete-source") ? remove_consumed(*source, *made) : Result<void>();
  };
  if (line.has("delete-source") && !made->needed_later.empty()) {
    made->account.warnings.push_back("--delete-source keeps " + std::to_string(made->needed_later.size()) +
                                     " source shards that hold tensors which are not in the output folder, " +
                                     quote_name(made->needed_later[0]) + " first.");
  }
  return run_plan(session, std::move(run));
}

}  // namespace tftf::cli
