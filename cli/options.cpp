#include "options.h"

#include <algorithm>

#include "tftf/base/size_text.h"

namespace tftf::cli {
namespace {

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    std::string text = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
    std::vector<std::string> groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& g) { return g != kGeneralGroup; });
    for (const std::string& group : groups) {
      const std::vector<const CLI::Option*> options = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (!group.empty() && !options.empty()) text += make_group(group, false, options);
    }
    return text + make_subcommands(app, mode) + make_footer(app);
  }
};

uint64_t read_size(const std::string& text) {
  Result<uint64_t> size = parse_size(text);
  if (!size) {
    std::string message = size.error().message;
    throw CLI::ValidationError(message);
  }
  return *size;
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

CLI::Option* add_size(CLI::App& app, const std::string& name, std::optional<uint64_t>& to,
                      const std::string& description) {
  return app
      .add_option_function<std::string>(
          name, [&to](const std::string& text) { to = read_size(text); }, description)
      ->type_name("SIZE")
      ->take_last();
}

CLI::Option* add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& description) {
  // Without extra arguments CLI11 neither eats what follows nor splits "[a,b]", which is a fine pattern.
  return app.add_option(name, to, description)->expected(1)->allow_extra_args(false)->take_all();
}

void add_common_options(CLI::App& command, Session& session) {
  CommonOptions& common = session.common;
  command.set_help_flag("-h,--help", "Show this help")->group(kGeneralGroup);
  command.add_flag("--json", common.json, "Give the result as one JSON document on stdout")
      ->group(kGeneralGroup);
  command.add_flag("--no-progress", common.no_progress, "Show no progress")->group(kGeneralGroup);
  command.add_flag("-q,--quiet", common.quiet, "Say nothing but results, warnings and errors")
      ->group(kGeneralGroup);
  command.add_flag("-v,--verbose", common.verbose, "Say more")->group(kGeneralGroup);
  command
      .add_option("--threads", common.threads,
                  "Worker threads; as many as there are processors when not given")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u).description(""))
      ->take_last()
      ->group(kGeneralGroup);
  add_size(command, "--max-memory", common.max_memory, "Refuse what cannot be done within this much memory")
      ->group(kGeneralGroup);
  command
      .add_option("--simd", common.simd, "Instruction set of the kernels: scalar, avx2, ... (also TFTF_SIMD)")
      ->type_name("NAME")
      ->take_last()
      ->group(kGeneralGroup);
  command
      .add_option_function<std::string>(
          "--max-header", [&common](const std::string& text) { common.max_header = read_size(text); },
          "Longest header that is read (100MB)")
      ->type_name("SIZE")
      ->take_last()
      ->group(kGeneralGroup);
}

CLI::App* add_command(CLI::App& parent, Session& session, const std::string& name,
                      const std::string& description, std::function<int()> run) {
  CLI::App* command = parent.add_subcommand(name, description);
  add_common_options(*command, session);
  command->callback([&session, run = std::move(run)] { session.command = run; });
  return command;
}

void add_write_options(CLI::App& command, WriteOptions& options) {
  command
      .add_option("-o,--output", options.output,
                  "Folder for shards, or one file when it ends in .safetensors")
      ->type_name("OUT")
      ->required()
      ->take_last()
      ->group(kOutputGroup);
  command.add_flag("--dry-run", options.dry_run, "Print the plan and the account, write nothing")
      ->group(kOutputGroup);
  command
      .add_option_function<std::string>(
          "--max-shard-size",
          [&options](const std::string& text) {
            // As in the original, a limit below zero is one tensor per shard, like 0.
            const bool negative = text.size() > 1 && text[0] == '-' &&
                                  text.find_first_not_of("0123456789", 1) == std::string::npos;
            options.max_shard_size = negative ? 0 : read_size(text);
          },
          "Start a new shard before this many bytes of tensors (20GiB)")
      ->type_name("SIZE")
      ->take_last()
      ->group(kOutputGroup);
  CLI::Option* single = command.add_flag("--single", options.single, "Write one file, whatever its name");
  CLI::Option* sharded =
      command.add_flag("--sharded", options.sharded, "Write a folder of shards, whatever its name");
  single->group(kOutputGroup)->excludes(sharded);
  sharded->group(kOutputGroup);
  command
      .add_flag("--align", options.align,
                "Order the tensors of a file by falling element size, so that all lie aligned")
      ->group(kOutputGroup);
  command.add_flag("--overwrite", options.overwrite, "Replace files of the same names, remove stale shards")
      ->group(kOutputGroup);
  command.add_flag("--no-resume", options.no_resume, "Start anew where an earlier run was interrupted")
      ->group(kOutputGroup);
  add_size(command, "--tile-size", options.tile_size, "Bytes of one step")->group("");
}

}  // namespace tftf::cli
