#include "commands.h"
#include "operation_options.h"
#include "options.h"
#include "tftf_native/adapter_reader.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

// What all merging commands have: rename, then merge, then cast (spec tftf 1.2).
struct MergeOptionsRead {
  std::string base;
  Operation merge, rename, cast;
  WriteOptions write;

  std::vector<Operation> operations() const {
    std::vector<Operation> list;
    if (!rename.options.empty()) list.push_back(rename);
    list.push_back(merge);
    if (cast.find("dtype") != nullptr) list.push_back(cast);
    return list;
  }
};

// `adapter`: how the option that names it is spelt; empty: the command has its own.
void add_merge_options(CLI::App& command, MergeOptionsRead& options, const std::string& adapter) {
  command.add_option("-b,--base", options.base, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_operation_options(command, *find_operation("merge-lora"), options.merge, adapter.empty(),
                        {{"adapter", adapter}});
  add_operation_options(command, *find_operation("rename"), options.rename, true, {{"rule", "--rename"}});
  add_operation_options(command, *find_operation("cast"), options.cast, true);
  add_write_options(command, options.write);
}

// Options of the cast without one.
std::optional<Error> cast_mistake(const MergeOptionsRead& options) {
  if (options.cast.options.empty() || options.cast.find("dtype") != nullptr) return std::nullopt;
  return Error{.code = ErrorCode::kUsage, .message = "--" + options.cast.options[0].name + " needs --dtype."};
}

std::optional<std::string> config_of(const Operation& merge) {
  const auto* config = merge.find("adapter-config");
  return config == nullptr ? std::nullopt : std::optional(config->front());
}

// Runs a merge whose adapter has been read.
int run_with(const Session& session, const std::string& name, MergeOptionsRead& options,
             Result<std::shared_ptr<const Adapter>> adapter, std::vector<std::string> sources) {
  if (!adapter) return session.fail(adapter.error());
  options.merge.options.push_back({"adapter", {(*adapter)->given}});
  options.merge.adapter = *std::move(adapter);
  return run_transform(session, name, options.base, options.operations(), options.write, std::move(sources));
}

}  // namespace

void add_merge_lora(CLI::App& app, Session& session) {
  auto options = std::make_shared<MergeOptionsRead>();
  CLI::App* command =
      add_command(app, session, "merge-lora", "Merge an adapter into a model", [&session, options] {
        if (const auto mistake = cast_mistake(*options)) return session.fail(*mistake);
        return run_transform(session, "merge-lora", options->base, options->operations(), options->write);
      });
  add_merge_options(*command, *options, "-a,--adapter");
}

void add_merge_fsdp_lora(CLI::App& app, Session& session) {
  struct Options : MergeOptionsRead {
    ShardedAdapterRequest ranks;
    std::vector<std::string> files;
    std::string folder;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "merge-fsdp-lora", "Merge an adapter that each rank of a training run saved its part of",
      [&session, options] {
        if (const auto mistake = cast_mistake(*options)) return session.fail(*mistake);
        if (options->files.empty() == options->folder.empty()) {
          return session.fail({.code = ErrorCode::kUsage,
                               .message = options->files.empty()
                                              ? "Either --shards or --shard-dir is needed."
                                              : "--shards and --shard-dir exclude each other."});
        }
        options->ranks.files = options->files;
        if (!options->folder.empty()) options->ranks.folder = options->folder;
        options->ranks.config = config_of(options->merge);
        options->ranks.max_header = session.common.max_header;
        std::vector<std::string> sources;
        options->ranks.sources = &sources;
        auto adapter = read_sharded_adapter(options->ranks);
        return run_with(session, "merge-fsdp-lora", *options, std::move(adapter), std::move(sources));
      });
  add_texts(*command, "-s,--shards", options->files, "File of one rank; once per rank, in their order")
      ->type_name("FILE");
  command
      ->add_option("--shard-dir", options->folder,
                   "Folder with the files of all ranks, ordered by their numbers")
      ->type_name("DIR")
      ->take_last();
  command
      ->add_option("--shard-dim", options->ranks.dim, "Dimension along which the parts are put together (0)")
      ->type_name("N")
      ->take_last();
  add_merge_options(*command, *options, "");
}

void add_merge_dcp_lora(CLI::App& app, Session& session) {
  struct Options : MergeOptionsRead {
    std::string folder;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "merge-dcp-lora", "Merge an adapter of a distributed checkpoint (PyTorch DCP)",
      [&session, options] {
        if (const auto mistake = cast_mistake(*options)) return session.fail(*mistake);
        AdapterRequest request{
            .path = options->folder, .config = config_of(options->merge), .dcp_only = true};
        request.max_header = session.common.max_header;
        std::vector<std::string> sources;
        request.sources = &sources;
        auto adapter = read_adapter(request);
        return run_with(session, "merge-dcp-lora", *options, std::move(adapter), std::move(sources));
      });
  command->add_option("-c,--checkpoint-dir", options->folder, "Folder with .metadata, or a training folder")
      ->type_name("DIR")
      ->required()
      ->take_last();
  add_merge_options(*command, *options, "");
}

}  // namespace tftf::cli
