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

constexpr std::string_view kShownAdapter = "ADAPTER";
constexpr std::string_view kRankMethods[] = {"sv_ratio", "sv_cumulative", "sv_fro"};
constexpr std::string_view kCombineModes[] = {"concat", "svd", "linear"};
constexpr std::string_view kExtractFamilies[] = {"peft", "kohya"};
constexpr uint64_t kMostRank = 4096;

constexpr CommandOption kConvRank{.name = "conv-rank",
                                  .kind = OptionKind::kInteger,
                                  .shows = "N",
                                  .help = "Rank for convolutions larger than 1 x 1; else that of --rank",
                                  .most = kMostRank};

constexpr CommandOption kResizeOptions[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OptionKind::kPath,
     .shows = kShownAdapter,
     .help = "Adapter: a file or its folder",
     .required = true},
    {.name = "rank",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rank to keep; with --method the most that is kept. A rank never grows",
     .required = true,
     .most = kMostRank},
    kConvRank,
    {.name = "method",
     .kind = OptionKind::kChoice,
     .help = "Choose each module's rank by its singular values: those above the largest / P, or as many as "
             "reach the share P of their sum or of their norm, and one more",
     .choices = kRankMethods},
    {.name = "param", .kind = OptionKind::kNumber, .shows = "P", .help = "P of --method"}};

constexpr CommandOption kCombineOptions[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OptionKind::kPath,
     .shows = kShownAdapter,
     .help = "Adapter; once for each of them",
     .required = true,
     .repeatable = true},
    {.name = "weight",
     .letter = 'w',
     .kind = OptionKind::kNumber,
     .shows = "W",
     .help = "Its weight; as often as -i",
     .required = true,
     .repeatable = true},
    {.name = "mode",
     .kind = OptionKind::kChoice,
     .help = "concat: exact, the ranks add up; svd: the best result of --rank; linear: the factors themselves "
             "are added, as PEFT does it, which is no sum of the adapters",
     .required = true,
     .choices = kCombineModes},
    {.name = "rank",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rank of the result with --mode svd",
     .most = kMostRank}};

constexpr CommandOption kExtractOptions[] = {
    {.name = "original",
     .kind = OptionKind::kPath,
     .shows = "MODEL",
     .help = "Model before it was tuned",
     .required = true},
    {.name = "tuned", .kind = OptionKind::kPath, .shows = "MODEL", .help = "Model afterwards", .required = true},
    {.name = "rank",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rank of the adapter",
     .required = true,
     .most = kMostRank},
    kConvRank,
    {.name = "to",
     .kind = OptionKind::kChoice,
     .help = "Family of the adapter (peft)",
     .choices = kExtractFamilies},
    {.name = "allow-partial",
     .kind = OptionKind::kFlag,
     .help = "Leave out what differs and fits into no adapter: biases, norms, embeddings"}};

constexpr CommandExample kResizeExamples[] = {
    {"tftf adapter resize -i adapter -o smaller --rank 4"},
    {"tftf adapter resize -i adapter -o smaller --rank 8 --method sv_fro --param 0.95",
     "as many as hold 95 % of the norm, at most 8"}};
constexpr CommandExample kCombineExamples[] = {
    {"tftf adapter combine -i adapter -w 0.7 -i adapter -w 0.3 --mode concat -o both"},
    {"tftf adapter combine -i adapter -w 1 -i adapter -w -0.5 --mode svd --rank 4 -o both",
     "the best of rank 4"}};
constexpr CommandExample kExtractExamples[] = {
    {"tftf adapter extract --original base --tuned merged --rank 4 -o difference"}};

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
    {.path = "adapter resize",
     .summary = "Bring an adapter to a lower rank, as near to it as that rank allows",
     .options = kResizeOptions,
     .writes = true,
     .native = true,
     .about = "The scale of every module stays. What is no pair of factors is copied.",
     .examples = kResizeExamples,
     .status = kConversionStatus},
    {.path = "adapter combine",
     .summary = "Add adapters up, each with its weight",
     .options = kCombineOptions,
     .writes = true,
     .native = true,
     .about = "The result has the family of the first adapter. A module that one of them lacks counts as zero there.",
     .examples = kCombineExamples,
     .status = kConversionStatus},
    {.path = "adapter extract",
     .summary = "Make an adapter of the difference of two models",
     .options = kExtractOptions,
     .writes = true,
     .native = true,
     .about = "Both models are read in strips, several times: memory stays at some vectors per thread.",
     .examples = kExtractExamples,
     .status = kConversionStatus},
};

}  // namespace

std::span<const CommandInfo> adapter_commands() { return kAdapterCommands; }

}  // namespace tftf::command
