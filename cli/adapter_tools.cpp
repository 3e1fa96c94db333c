// `tftf adapter resize`, `combine`, `extract`: several inputs, one plan.
#include <filesystem>
#include <memory>

#include "commands.h"
#include "plan_run.h"
#include "tftf/transform/adapter_tools.h"
#include "tftf_native/path_kind.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

// What a tool reads: models by their paths, each with its pump.
struct ToolSources {
  std::vector<std::unique_ptr<NativeModel>> models;
  std::vector<std::unique_ptr<AdapterInput>> inputs;

  Result<void> open(const Session& session, const std::string& path, AdapterInput::Kind kind) {
    Result<NativeModel> model = open_model(session, path);
    if (!model) return std::move(model).error();
    models.push_back(std::make_unique<NativeModel>(*std::move(model)));
    inputs.push_back(std::make_unique<AdapterInput>(models.back()->checkpoint, kind));
    return serve(*inputs.back(), *models.back());
  }

  std::vector<RunInput> run_inputs(const AdapterToolPlan& made) const {
    std::vector<RunInput> files;
    for (size_t i = 0; i < made.plan.inputs().size(); ++i) {
      const NativeModel& model = *models[made.input_source[i]];
      const std::string& name = made.plan.inputs()[i].path;
      RunInput file{.path = model.path_of(name)};
      for (size_t s = 0; s < model.checkpoint.shards.size(); ++s)
        if (model.checkpoint.shards[s].name == name) file.seen = model.seen[s];
      files.push_back(std::move(file));
    }
    return files;
  }
};

struct ToolRequest {
  AdapterToolRequest request;
  OutputTarget target;
  bool nowhere = false;
};

Result<ToolRequest> request_of(const CommandLine& line, const ToolSources& sources, std::string input) {
  auto destination = choose_destination(line);
  if (!destination) return std::move(destination).error();
  ToolRequest made;
  made.target = destination->target;
  made.nowhere = destination->nowhere;
  AdapterToolRequest& request = made.request;
  request.command = std::string(line.command->info->path);
  request.input = std::move(input);
  request.output = line.value("output");
  request.dry_run = line.has("dry-run");
  if (made.target.single_file)
    request.single_name = std::filesystem::path(request.output).filename().string();
  const NativeModel& first = *sources.models.front();
  if (first.checkpoint.listing.kind == ModelListing::Kind::kFolder) {
    Result<NativeListing> folder = list_model(first.folder);
    if (!folder) return std::move(folder).error();
    request.folder = std::move(folder->listing.files);
  }
  if (const auto asked = line.number("tile-size")) {
    request.tile_bytes = *asked;
  } else if (!made.nowhere && !line.has("no-resume")) {
    const auto tile = journal_tile(made.target);
    if (!tile) return std::move(tile).error();
    request.tile_bytes = tile->value_or(kDefaultTileBytes);
  }
  return made;
}

int run_tool(const Session& session, const CommandLine& line, const ToolSources& sources,
             const ToolRequest& request, Result<AdapterToolPlan> made) {
  if (!made) return session.fail(made.error());
  ExecuteOptions how = execute_options(session);
  how.resume = !line.has("no-resume");
  how.overwrite = line.has("overwrite");
  how.side_folder = sources.models.front()->folder;
  how.sides = sources.models.front()->sides;
  for (const auto& model : sources.models)
    if (model->checkpoint.listing.kind != ModelListing::Kind::kFile) how.also_read.push_back(model->folder);
  return run_plan(session, {.line = line,
                            .plan = made->plan,
                            .inputs = sources.run_inputs(*made),
                            .target = request.target,
                            .how = std::move(how),
                            .dry_run = request.request.dry_run,
                            .nowhere = request.nowhere,
                            .account = [&](const RunReport* done) {
                              return done == nullptr
                                         ? *made->account
                                         : made->final_account(done->bytes_read, done->bytes_written,
                                                               done->resumed);
                            }});
}

Error tool_usage(std::string message) { return {.code = ErrorCode::kUsage, .message = std::move(message)}; }

Result<RankChoice> rank_choice(const CommandLine& line) {
  RankChoice choice{.most = line.number("rank").value_or(1)};
  if (line.has("method") != line.has("param"))
    return tool_usage("--method and --param belong together: the one says how, the other how much.");
  if (!line.has("method")) return choice;
  choice.method = find_rank_method(line.value("method")).value_or(RankChoice::Method::kFixed);
  choice.param = parse_number(line.value("param")).value_or(0);
  TFTF_TRY(check_rank_choice(choice));
  return choice;
}

}  // namespace

int run_adapter_resize(Session& session, const CommandLine& line) {
  const Result<RankChoice> choice = rank_choice(line);
  if (!choice) return session.fail(choice.error());
  ToolSources sources;
  if (auto opened = sources.open(session, line.value("input"), AdapterInput::Kind::kAdapter); !opened)
    return session.fail(opened.error());
  const auto request = request_of(line, sources, line.value("input"));
  if (!request) return session.fail(request.error());
  return run_tool(session, line, sources, *request,
                  plan_resize(*sources.inputs[0], {.choice = *choice, .conv_rank = line.number("conv-rank")},
                              request->request));
}

int run_adapter_combine(Session& session, const CommandLine& line) {
  CombineOptions options{.mode = find_combine_mode(line.value("mode")).value_or(CombineMode::kConcat)};
  options.rank = line.number("rank");
  for (const std::string& weight : line.values("weight")) {
    const auto value = parse_number(weight);
    if (!value) return session.fail(tool_usage("--weight " + weight + " is not a number."));
    options.weights.push_back(*value);
  }
  const std::vector<std::string> paths = line.values("input");
  if (paths.size() != options.weights.size()) {
    return session.fail(tool_usage("Each adapter needs its weight: -i IN -w W; there are " +
                                   std::to_string(paths.size()) + " adapters and " +
                                   std::to_string(options.weights.size()) + " weights."));
  }
  ToolSources sources;
  std::string names;
  std::vector<const AdapterInput*> inputs;
  for (const std::string& path : paths) {
    if (auto opened = sources.open(session, path, AdapterInput::Kind::kAdapter); !opened)
      return session.fail(opened.error());
    names += (names.empty() ? "" : " + ") + path;
    inputs.push_back(sources.inputs.back().get());
  }
  const auto request = request_of(line, sources, names);
  if (!request) return session.fail(request.error());
  return run_tool(session, line, sources, *request, plan_combine(inputs, options, request->request));
}

int run_adapter_extract(Session& session, const CommandLine& line) {
  ToolSources sources;
  for (const char* option : {"original", "tuned"}) {
    if (auto opened = sources.open(session, line.value(option), AdapterInput::Kind::kModel); !opened)
      return session.fail(opened.error());
  }
  const auto request = request_of(line, sources, line.value("tuned"));
  if (!request) return session.fail(request.error());
  const ExtractOptions options{.rank = line.number("rank").value_or(1),
                               .conv_rank = line.number("conv-rank"),
                               .kohya = line.value("to") == "kohya",
                               .allow_partial = line.has("allow-partial")};
  return run_tool(session, line, sources, *request,
                  plan_extract(*sources.inputs[0], *sources.inputs[1], options, request->request));
}

}  // namespace tftf::cli
