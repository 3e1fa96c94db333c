// Commands of adapters: what one is, and into which other form it is brought.
#include "command/tables.h"

namespace tftf::command {
namespace {

constexpr CommandOption kGroupOptions[] = {{.name = "help",
                                            .letter = 'h',
                                            .kind = OptionKind::kFlag,
                                            .help = "Show this help",
                                            .group = kGeneralGroup}};

constexpr CommandWord kAdapterWord[] = {
    {.name = "PATH", .help = "An adapter: a file, its folder, or a folder of many"}};

constexpr CommandExample kAdapterInfoExamples[] = {
    {"tftf adapter info adapter/", "family, ranks, alphas, the model it belongs to"},
    {"tftf adapter info loras/", "a line for each adapter of a folder"},
    {"tftf adapter info --json adapter/ | jq .ranks"}};

constexpr CommandInfo kAdapterCommands[] = {
    {.path = "adapter",
     .summary = "Identify and convert adapters (LoRA and its kin)",
     .options = kGroupOptions,
     .common = false},
    {.path = "adapter info",
     .summary = "Say what an adapter is: family, base model's family, ranks, alphas, what is missing",
     .words = kAdapterWord,
     .about = "Headers and alphas alone are read. A folder of several adapters is told adapter by adapter; "
              "with --json as "
              "{\"adapters\": [{\"file\", ...}]}.",
     .examples = kAdapterInfoExamples,
     .status =
         "0, 1 when it is not an adapter (what it is instead is on stdout), 2 usage error or PATH missing."},
};

}  // namespace

std::span<const CommandInfo> adapter_commands() { return kAdapterCommands; }

}  // namespace tftf::command
