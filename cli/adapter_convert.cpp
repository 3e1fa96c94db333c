// `tftf adapter convert`: an adapter in the form of another family.
#include <filesystem>
#include <optional>

#include "commands.h"
#include "plan_run.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/command/adapter_request.h"
#include "tftf/transform/adapter_tool.h"
#include "tftf_native/path_kind.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

// A file where a folder is needed, and the other way round.
Result<OutputTarget> adapter_target(const CommandLine& line) {
  OutputTarget target{.path = line.value("output")};
  target.single_file = ends_with(target.path, ".safetensors");
  if (target.path == "/dev/null" && line.has("dry-run")) return target;
  const auto kind = path_kind(target.path);
  if (!kind) return kind.error();
  const bool exists = *kind != PathKind::kNothing && *kind != PathKind::kDangling;
  if (exists && (*kind == PathKind::kFolder) == target.single_file) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = quote_name(target.path) + (target.single_file
                                                           ? " is a folder where a file is to be written."
                                                           : " is a file where a folder is needed."),
                 .file = target.path};
  }
  return target;
}

}  // namespace

int run_adapter_convert(Session& session, const CommandLine& line) {
  const std::string input = line.value("input"), output = line.value("output");
  const bool dry_run = line.has("dry-run");
  Result<OutputTarget> target = adapter_target(line);
  if (!target) return session.fail(target.error());
  Result<NativeModel> source = open_model(session, input);
  if (!source) return session.fail(source.error());
  std::optional<NativeModel> base;
  if (line.has("base")) {
    Result<NativeModel> model = open_model(session, line.value("base"));
    if (!model) return session.fail(model.error());
    base.emplace(*std::move(model));
  }
  Result<AdapterConvertOptions> options =
      adapter_convert_options(line, base ? &base->checkpoint : nullptr,
                              target->single_file ? std::filesystem::path(output).filename().string() : "");
  if (!options) return session.fail(options.error());

  TransformRequest request{.command = std::string(line.command->info->path),
                           .tool = make_adapter_conversion(*std::move(options)),
                           .input = input,
                           .output = output,
                           .dry_run = dry_run};
  ExecuteOptions how = execute_options(session);
  how.resume = !line.has("no-resume");
  how.overwrite = line.has("overwrite");
  how.side_folder = source->folder;
  how.sides = source->sides;
  if (source->checkpoint.listing.kind != ModelListing::Kind::kFile) how.input_folder = source->folder;
  const bool nowhere = output == "/dev/null" && dry_run;
  if (const auto asked = line.number("tile-size")) {
    request.tile_bytes = *asked;
  } else if (!nowhere && how.resume) {
    const auto tile = journal_tile(*target);
    if (!tile) return session.fail(tile.error());
    request.tile_bytes = tile->value_or(kDefaultTileBytes);
  }
  Result<Transform> made = make_plan(*source, std::move(request));
  if (!made) return session.fail(made.error());
  return run_plan(session, {.line = line,
                            .plan = made->plan,
                            .inputs = run_inputs(*source, made->plan),
                            .target = *target,
                            .how = std::move(how),
                            .dry_run = dry_run,
                            .nowhere = nowhere,
                            .account = [&](const RunReport* done) {
                              return done == nullptr
                                         ? made->account
                                         : made->final_account(done->bytes_read, done->bytes_written,
                                                               done->resumed);
                            }});
}

}  // namespace tftf::cli
