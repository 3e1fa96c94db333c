// The program itself, commands that look at no model, and options that all commands have.
#include "command/tables.h"

namespace tftf::command {
namespace {

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};
constexpr CommandWord kShell[] = {
    {.name = "SHELL", .help = "Which shell: bash, zsh or fish", .choices = kShells}};
constexpr CommandWord kTopic[] = {
    {.name = "COMMAND", .help = "What to tell about", .required = false, .repeatable = true}};

constexpr CommandOption kProgramOptions[] = {{.name = "help",
                                              .letter = 'h',
                                              .kind = OptionKind::kFlag,
                                              .help = "Show this help",
                                              .group = kGeneralGroup},
                                             {.name = "version",
                                              .letter = 'V',
                                              .kind = OptionKind::kFlag,
                                              .help = "Show the version",
                                              .group = kGeneralGroup}};
constexpr CommandOption kHelpOption[] = {kProgramOptions[0]};

constexpr CommandOption kGeneral[] = {
    kProgramOptions[0],
    {.name = "json",
     .kind = OptionKind::kFlag,
     .help = "Give the result as one JSON document on stdout",
     .group = kGeneralGroup},
    {.name = "no-progress", .kind = OptionKind::kFlag, .help = "Show no progress", .group = kGeneralGroup},
    {.name = "quiet",
     .letter = 'q',
     .kind = OptionKind::kFlag,
     .help = "Say nothing but results, warnings and errors",
     .group = kGeneralGroup},
    {.name = "verbose",
     .letter = 'v',
     .kind = OptionKind::kFlag,
     .help = "Say more",
     .group = kGeneralGroup,
     .repeatable = true},
    {.name = "threads",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Worker threads; as many as there are processors when not given",
     .group = kGeneralGroup,
     .most = 1024},
    {.name = "max-memory",
     .kind = OptionKind::kSize,
     .shows = "SIZE",
     .help = "Refuse what cannot be done within this much memory",
     .group = kGeneralGroup},
    {.name = "simd",
     .shows = "NAME",
     .help = "Instruction set of the kernels: scalar, avx2, ... (also TFTF_SIMD)",
     .group = kGeneralGroup,
     .native = true},
    {.name = "max-header",
     .kind = OptionKind::kSize,
     .shows = "SIZE",
     .help = "Longest header that is read (100MB)",
     .group = kGeneralGroup}};

constexpr CommandOption kWriting[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OptionKind::kPath,
     .shows = "OUT",
     .help = "Folder for shards, or one file when it ends in .safetensors",
     .group = kOutputGroup,
     .required = true},
    {.name = "dry-run",
     .kind = OptionKind::kFlag,
     .help = "Print the plan and the account, write nothing",
     .group = kOutputGroup},
    {.name = "max-shard-size",
     .kind = OptionKind::kSize,
     .shows = "SIZE",
     .help = "Start a new shard before this many bytes of tensors (20GiB)",
     .group = kOutputGroup},
    {.name = "single",
     .kind = OptionKind::kFlag,
     .help = "Write one file, whatever its name",
     .group = kOutputGroup},
    {.name = "sharded",
     .kind = OptionKind::kFlag,
     .help = "Write a folder of shards, whatever its name",
     .group = kOutputGroup},
    {.name = "align",
     .kind = OptionKind::kFlag,
     .help = "Order the tensors of a file by falling element size, so that all lie aligned",
     .group = kOutputGroup},
    {.name = "overwrite",
     .kind = OptionKind::kFlag,
     .help = "Replace files of the same names, remove stale shards",
     .group = kOutputGroup},
    {.name = "no-resume",
     .kind = OptionKind::kFlag,
     .help = "Start anew where an earlier run was interrupted",
     .group = kOutputGroup},
    {.name = "tile-size",
     .kind = OptionKind::kSize,
     .shows = "SIZE",
     .help = "Bytes of one step",
     .group = ""}};

constexpr CommandExample kProgramExamples[] = {
    {"tftf info model/", "what is it?"},
    {"tftf lint base/", "is it sound?"},
    {"tftf dequant-fp8 -i model -o model-plain", "FP8 to BF16"},
    {"tftf merge-lora -b base -a adapter -o merged"},
    {"tftf diff --values model model-bf16", "is it still the same?"}};
constexpr CommandExample kFormatsExamples[] = {
    {"tftf formats", "ids, and what can be done with each layout"},
    {"tftf formats --json | jq '.layouts[] | select(.read) | .id'"}};
constexpr CommandExample kCompletionExamples[] = {
    {"source <(tftf completion bash)", "for this shell; in ~/.bashrc for all"},
    {"tftf completion zsh > ~/.zfunc/_tftf"},
    {"tftf completion fish > ~/.config/fish/completions/tftf.fish"}};
constexpr CommandExample kHelpExamples[] = {
    {"tftf help"}, {"tftf help merge-lora"}, {"tftf help colibri convert"}};
constexpr CommandExample kVersionExamples[] = {{"tftf version"}};

constexpr CommandInfo kProgramCommands[] = {
    {.path = "",
     .summary = "Inspect, lint and transform safetensors checkpoints of any size in little memory",
     .options = kProgramOptions,
     .common = false,
     .examples = kProgramExamples},
    {.path = "formats",
     .summary = "List the quantised layouts and what can be done with them",
     .examples = kFormatsExamples,
     .status = "0, 2 usage error."},
    {.path = "completion",
     .summary = "Print a script that completes commands and options",
     .words = kShell,
     .options = kHelpOption,
     .common = false,
     .examples = kCompletionExamples,
     .status = "0, 2 usage error."},
    {.path = "help",
     .summary = "Show the help of a command, or of all",
     .words = kTopic,
     .options = kHelpOption,
     .common = false,
     .examples = kHelpExamples,
     .status = "0, 2 no such command."},
    {.path = "version",
     .summary = "Show the version",
     .options = kHelpOption,
     .common = false,
     .examples = kVersionExamples,
     .status = "0, 2 usage error."},
};

}  // namespace

std::span<const CommandInfo> program_commands() { return kProgramCommands; }
std::span<const CommandOption> general_options() { return kGeneral; }
std::span<const CommandOption> writing_options() { return kWriting; }

}  // namespace tftf::command
