#include "transform_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "plan_run.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/checkpoint/lone_shard.h"
#include "tftf_native/adapter_reader.h"
#include "tftf_native/executor.h"
#include "tftf_native/path_kind.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {
namespace {

constexpr size_t kShownWarnings = 20;
constexpr uint64_t kMaxLoneIndex = 256'000'000;
constexpr uint64_t kMaxOperationFile = uint64_t{8} << 30;  // scales of a model

uint32_t thread_count(const Session& session) {
  return session.common.threads != 0 ? session.common.threads
                                     : std::max(1u, std::thread::hardware_concurrency());
}

// What an index in the folder says of a lone file.
Result<std::optional<std::string>> shard_warning(const NativeModel& model,
                                                 const std::vector<FileEntry>& folder) {
  for (const FileEntry& file : folder) {
    if (!may_index(file) || !file.regular || file.size > kMaxLoneIndex) continue;
    const auto text = read_small_file(model.path_of(file.name), kMaxLoneIndex);
    if (!text) return text.error();
    if (auto warning = lone_shard_warning(model.checkpoint.listing, file.name, *text)) return warning;
  }
  return std::optional<std::string>();
}

}  // namespace

Result<Destination> choose_destination(const CommandLine& line) {
  Destination destination;
  const std::string output = line.value("output");
  destination.target.path = output;
  destination.target.single_file =
      line.has("single") || (!line.has("sharded") && ends_with(output, ".safetensors"));
  if (output == "/dev/null" && line.has("dry-run")) {
    destination.nowhere = true;
    return destination;
  }
  const auto kind = path_kind(output);
  if (!kind) return kind.error();
  const bool exists = *kind != PathKind::kNothing && *kind != PathKind::kDangling;
  const bool folder = *kind == PathKind::kFolder;
  if (exists && folder == destination.target.single_file) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = quote_name(output) +
                            (folder ? " is a folder where a file is to be written (--sharded writes into it)."
                                    : " is a file where a folder is needed (--single replaces a file)."),
                 .file = output};
  }
  return destination;
}

void warn_all(const Session& session, const std::vector<std::string>& warnings) {
  const size_t shown = session.common.verbose ? warnings.size() : std::min(warnings.size(), kShownWarnings);
  for (size_t i = 0; i < shown; ++i) session.warn(warnings[i]);
  if (shown < warnings.size()) {
    session.warn(grouped_digits(warnings.size() - shown) + " more like these; -v or --json tells them all.");
  }
}

Result<NativeModel> open_model(const Session& session, const std::string& path) {
  ReaderOptions options;
  options.mode = ReadMode::kTransform;
  options.max_header = session.common.max_header;
  return read_model(path, options);
}

Result<Transform> make_plan(const NativeModel& model, TransformRequest request) {
  Planner planner(model.checkpoint, std::move(request));
  TFTF_TRY(serve(planner, model));
  return planner.take();
}

Result<void> check_memory(const Session& session, const Plan& plan) {
  const uint32_t threads = thread_count(session);
  const uint64_t memory = plan.memory_bytes(threads);
  if (!session.common.max_memory || memory <= *session.common.max_memory) return {};
  return Error{.code = ErrorCode::kRefusedMemory,
               .message = "The plan needs " + size_text(memory) + " of memory with " +
                          std::to_string(threads) + " threads, more than --max-memory allows.",
               .expected = std::to_string(*session.common.max_memory),
               .found = std::to_string(memory)};
}

ExecuteOptions execute_options(const Session& session) {
  ExecuteOptions options;
  options.threads = thread_count(session);
  options.kernels = *session.kernels();  // checked before any command runs
  options.stop = &Session::stop_requested();
  return options;
}

std::vector<RunInput> run_inputs(const NativeModel& model, const Plan& plan,
                                 const std::vector<OtherFiles>& others) {
  std::vector<RunInput> inputs;
  for (const Input& input : plan.inputs()) {
    RunInput file{.path = model.path_of(input.path)};
    for (size_t s = 0; s < model.checkpoint.shards.size(); ++s) {
      if (model.checkpoint.shards[s].name == input.path) file.seen = model.seen[s];
    }
    for (const OtherFiles& other : others) {
      const std::vector<Shard>& shards = other.model->checkpoint->shards;
      for (size_t s = 0; s < shards.size(); ++s)
        if (shards[s].name == input.path) file.seen = other.seen[s];
    }
    inputs.push_back(std::move(file));
  }
  return inputs;
}

namespace {

// A merge of several adapters is one merge per adapter, in the order given. What is given once is meant for all of them,
// what is given as often as adapters for each in turn.
Result<std::vector<Operation>> one_per_adapter(const Operation& merge) {
  std::vector<std::vector<std::string>> adapters;
  for (const Operation::Given& given : merge.options)
    if (given.name == "adapter") adapters.push_back(given.values);
  if (adapters.empty()) return std::vector<Operation>{merge};  // refused where it is read
  const OperationInfo& info = *find_operation(merge.id);
  std::vector<Operation> merges(adapters.size(), Operation{merge.id, {}});
  for (size_t i = 0; i < adapters.size(); ++i) merges[i].options.push_back({"adapter", adapters[i]});
  std::map<std::string, size_t> times, seen;
  for (const Operation::Given& given : merge.options) ++times[given.name];
  for (const Operation::Given& given : merge.options) {
    if (given.name == "adapter") continue;
    const OptionInfo* option = info.option(given.name);
    const bool for_all = option == nullptr || option->kind == OptionKind::kRule ||
                         option->kind == OptionKind::kFlag || times[given.name] == 1;
    if (!for_all && times[given.name] != adapters.size()) {
      return Error{.code = ErrorCode::kUsage,
                   .message = "--" + given.name + " is given " + std::to_string(times[given.name]) +
                              " times for " + std::to_string(adapters.size()) + " adapter" +
                              (adapters.size() == 1 ? "" : "s") +
                              ": once means all of them, as often as adapters means each in turn.",
                   .found = given.name};
    }
    const size_t at = seen[given.name]++;
    for (size_t i = 0; i < merges.size(); ++i)
      if (for_all || i == at) merges[i].options.push_back(given);
  }
  return merges;
}

}  // namespace

Result<void> read_adapters(const Session& session, std::vector<Operation>& operations,
                           std::vector<std::string>* sources) {
  std::vector<Operation> single;
  for (const Operation& operation : operations) {
    if (operation.id != "merge-lora" || operation.adapter != nullptr) {
      single.push_back(operation);
      continue;
    }
    auto merges = one_per_adapter(operation);
    if (!merges) return std::move(merges).error();
    single.insert(single.end(), merges->begin(), merges->end());
  }
  operations = std::move(single);
  for (Operation& operation : operations) {
    if (operation.id != "merge-lora" || operation.adapter != nullptr) continue;
    TFTF_TRY(check_operation(operation));
    AdapterRequest request{.path = operation.find("adapter")->front()};
    if (const auto* config = operation.find("adapter-config")) request.config = config->front();
    request.tokenizer = takes_tokenizer(operation);
    request.max_header = session.common.max_header;
    request.sources = sources;
    auto adapter = read_adapter(request);
    if (!adapter) return std::move(adapter).error();
    operation.adapter = *std::move(adapter);
  }
  return {};
}

namespace {

Result<void> read_operation_files(std::vector<Operation>& operations, std::vector<std::string>* sources) {
  for (Operation& operation : operations)
    for (const OperationFile& file : files_of(operation)) {
      auto text = read_small_file(file.path, kMaxOperationFile);
      if (!text) return std::move(text).error();
      operation.files[file.option] = std::make_shared<const std::string>(*std::move(text));
      if (sources != nullptr) sources->push_back(file.path);
    }
  return {};
}

// The result must not take the place of the adapter it is made with.
Result<void> check_adapters(const std::vector<Operation>& operations, const Destination& destination) {
  if (destination.nowhere) return {};
  for (const Operation& operation : operations) {
    if (operation.adapter == nullptr) continue;
    std::error_code error;
    if (std::filesystem::equivalent(operation.adapter->file, destination.target.path, error)) {
      return Error{.code = ErrorCode::kRefusedOutput,
                   .message = "The output " + quote_name(destination.target.path) + " is the adapter itself.",
                   .file = destination.target.path};
    }
  }
  return {};
}

}  // namespace

// Reads the models that operations take tensors from.
Result<std::vector<OtherFiles>> read_others(const Session& session, std::vector<Operation>& operations,
                                            ExecuteOptions& how) {
  std::vector<OtherFiles> others;
  for (Operation& operation : operations) {
    const OperationInfo* info = find_operation(operation.id);
    if (info == nullptr || info->other.empty()) continue;
    TFTF_TRY(check_operation(operation));
    const std::string& path = operation.find(info->other)->front();
    Result<NativeModel> model = open_model(session, path);
    if (!model) return std::move(model).error();
    Result<NativeListing> folder = list_model(model->folder);
    if (!folder) return std::move(folder).error();
    if (model->checkpoint.listing.kind == ModelListing::Kind::kFolder) how.also_read.push_back(model->folder);
    how.sides.insert(how.sides.end(), model->sides.begin(), model->sides.end());
    operation.other =
        other_model(std::move(model->checkpoint), model->folder, std::move(folder->listing.files));
    others.push_back({operation.other, std::move(model->seen)});
  }
  return others;
}

int run_transform(const Session& session, const CommandLine& line, std::vector<Operation> operations,
                  std::vector<std::string> also_read) {
  const std::string command(line.command->info->path);
  const std::string path = line.value(line.has("base") ? "base" : "input");
  const std::string output = line.value("output");
  const bool dry_run = line.has("dry-run");
  Result<Destination> destination = choose_destination(line);
  if (!destination) return session.fail(destination.error());
  if (auto read = read_adapters(session, operations, &also_read); !read) return session.fail(read.error());
  if (auto read = read_operation_files(operations, &also_read); !read) return session.fail(read.error());
  if (auto apart = check_adapters(operations, *destination); !apart) return session.fail(apart.error());
  Result<NativeModel> model = open_model(session, path);
  if (!model) return session.fail(model.error());
  Result<NativeListing> folder = list_model(model->folder);
  if (!folder) return session.fail(folder.error());

  ExecuteOptions how = execute_options(session);
  how.resume = !line.has("no-resume");
  how.overwrite = line.has("overwrite");
  how.side_folder = model->folder;
  how.sides = model->sides;
  how.also_read = std::move(also_read);
  Result<std::vector<OtherFiles>> others = read_others(session, operations, how);
  if (!others) return session.fail(others.error());
  join_others(model->checkpoint, operations);
  const ModelListing::Kind kind = model->checkpoint.listing.kind;
  if (kind != ModelListing::Kind::kFile) how.input_folder = model->folder;

  const OutputTarget& target = destination->target;
  TransformRequest request{.command = command,
                           .operations = std::move(operations),
                           .input = path,
                           .output = output,
                           .dry_run = dry_run,
                           .folder = std::move(folder->listing.files)};
  request.layout.max_shard_size = line.number("max-shard-size").value_or(request.layout.max_shard_size);
  request.layout.single_file = target.single_file;
  // The form of a colibri header (spec colibri 3.5).
  request.layout.align = line.has("align") || command.rfind("colibri ", 0) == 0;
  if (target.single_file) request.layout.single_name = std::filesystem::path(output).filename().string();
  std::vector<std::string> warnings;
  if (kind == ModelListing::Kind::kFile) {
    auto warning = shard_warning(*model, request.folder);
    if (!warning) return session.fail(warning.error());
    if (*warning) warnings.push_back(**std::move(warning));
  }
  if (const auto asked = line.number("tile-size")) {
    request.tile_bytes = *asked;
  } else if (!destination->nowhere && how.resume) {
    const auto tile = journal_tile(target);
    if (!tile) return session.fail(tile.error());
    request.tile_bytes = tile->value_or(kDefaultTileBytes);
  }

  Result<Transform> transform = make_plan(*model, std::move(request));
  if (!transform) return session.fail(transform.error());
  for (std::string& warning : warnings) transform->account.warnings.push_back(std::move(warning));
  Plan& plan = transform->plan;
  return run_plan(session, {.line = line,
                            .plan = plan,
                            .inputs = run_inputs(*model, plan, *others),
                            .target = target,
                            .how = std::move(how),
                            .dry_run = dry_run,
                            .nowhere = destination->nowhere,
                            .account = [&](const RunReport* done) {
                              return done == nullptr
                                         ? transform->account
                                         : transform->final_account(done->bytes_read, done->bytes_written,
                                                                    done->resumed);
                            }});
}

}  // namespace tftf::cli
