#include "commands.h"

#include <string_view>

namespace tftf::cli {
namespace {

struct CommandRun {
  std::string_view path;
  int (*run)(Session&, const CommandLine&);
};

constexpr CommandRun kRuns[] = {
    {"passthrough", run_conversion},
    {"dequant-fp8", run_conversion},
    {"dequant", run_conversion},
    {"convert", run_conversion},
    {"quantize", run_conversion},
    {"repack", run_conversion},
    {"graft", run_conversion},
    {"merge-lora", run_conversion},
    {"merge-fsdp-lora", run_sharded_merge},
    {"merge-dcp-lora", run_distributed_merge},
    {"run", run_conversion},
    {"validate", run_validate},
    {"lint", run_lint},
    {"lint rules", run_rules},
    {"info", run_info},
    {"stats", run_stats},
    {"diff", run_diff},
    {"adapter info", run_adapter_info},
    {"adapter convert", run_adapter_convert},
    {"colibri repack-fp8", run_folder_tool},
    {"colibri rans-repack", run_rans_repack},
    {"colibri resolve", run_resolve},
    {"colibri classify", run_classify},
    {"colibri convert", run_folder_tool},
    {"colibri fmt4-to-fmt2", run_folder_tool},
    {"colibri quantize", run_conversion},
    {"colibri dequant", run_conversion},
    {"colibri stamps", run_stamps},
    {"colibri rans-verify", run_rans_verify},
    {"formats", run_formats},
    {"completion", run_completion},
};

}  // namespace

int run_command(Session& session, const CommandLine& line) {
  for (const CommandRun& one : kRuns)
    if (one.path == line.command->info->path) return one.run(session, line);
  return session.fail(
      {.code = ErrorCode::kInternal,
       .message = "A defect of this program: nothing runs " + std::string(line.command->info->path) + "."});
}

}  // namespace tftf::cli
