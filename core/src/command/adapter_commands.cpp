// Commands of adapters: what one is, and into which other form it is brought.
#include "command/tables.h"
#include "tftf/adapter/convert.h"

namespace tftf::command {
namespace {

constexpr CommandOption kAdapterGroupOptions[] = {{.name = "help",
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

// Where the result goes: one file or a folder, never shards.
constexpr CommandOption kToolOutput{.name = "output",
                                    .letter = 'o',
                                    .kind = OptionKind::kPath,
                                    .shows = "OUT",
                                    .help = "Folder, or one file when it ends in .safetensors",
                                    .group = kOutputGroup,
                                    .required = true};
constexpr CommandOption kToolDryRun{.name = "dry-run",
                                    .kind = OptionKind::kFlag,
                                    .help = "Print the plan and the account, write nothing",
                                    .group = kOutputGroup};
constexpr CommandOption kToolOverwrite{.name = "overwrite",
                                       .kind = OptionKind::kFlag,
                                       .help = "Replace files of the same names",
                                       .group = kOutputGroup};
constexpr CommandOption kToolNoResume{.name = "no-resume",
                                      .kind = OptionKind::kFlag,
                                      .help = "Start anew where an earlier run was interrupted",
                                      .group = kOutputGroup};
constexpr CommandOption kToolTileSize{.name = "tile-size",
                                      .kind = OptionKind::kSize,
                                      .shows = "SIZE",
                                      .help = "Bytes of one step",
                                      .group = ""};

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
     .shows = "sv_ratio|sv_cumulative|sv_fro",
     .help = "Choose each module's rank by its singular values: those above the largest / P, or as many as "
             "reach the share P of their sum or of their norm, and one more",
     .choices = kRankMethods},
    {.name = "param", .kind = OptionKind::kNumber, .shows = "P", .help = "P of --method"},
    kToolOutput,
    kToolDryRun,
    kToolOverwrite,
    kToolNoResume,
    kToolTileSize};

// Weights may be negative, which other numbers of command lines are not.
std::string check_weight(std::string_view value) { return parse_number(value) ? "" : "is not a number"; }

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
     .shows = "W",
     .help = "Its weight; as often as -i",
     .required = true,
     .repeatable = true,
     .check = check_weight},
    {.name = "mode",
     .kind = OptionKind::kChoice,
     .shows = "concat|svd|linear",
     .help =
         "concat: exact, the ranks add up; svd: the best result of --rank; linear: the factors themselves "
         "are added, as PEFT does it, which is no sum of the adapters",
     .required = true,
     .choices = kCombineModes},
    {.name = "rank",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rank of the result with --mode svd",
     .most = kMostRank},
    kToolOutput,
    kToolDryRun,
    kToolOverwrite,
    kToolNoResume,
    kToolTileSize};

constexpr CommandOption kExtractOptions[] = {
    {.name = "original",
     .kind = OptionKind::kPath,
     .shows = "MODEL",
     .help = "Model before it was tuned",
     .required = true},
    {.name = "tuned",
     .kind = OptionKind::kPath,
     .shows = "MODEL",
     .help = "Model afterwards",
     .required = true},
    {.name = "rank",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rank of the adapter",
     .required = true,
     .most = kMostRank},
    kConvRank,
    {.name = "to",
     .kind = OptionKind::kChoice,
     .shows = "peft|kohya",
     .help = "Family of the adapter (peft)",
     .choices = kExtractFamilies},
    {.name = "allow-partial",
     .kind = OptionKind::kFlag,
     .help = "Leave out what differs and fits into no adapter: biases, norms, embeddings"},
    kToolOutput,
    kToolDryRun,
    kToolOverwrite,
    kToolNoResume,
    kToolTileSize};

constexpr CommandExample kResizeExamples[] = {
    {"tftf adapter resize -i adapter -o smaller --rank 4"},
    {"tftf adapter resize -i adapter -o smaller --rank 8 --method sv_fro --param 0.95",
     "as many as hold 95 % of the norm, at most 8"}};
constexpr CommandExample kCombineExamples[] = {
    {"tftf adapter combine -i adapter -w 0.7 -i adapter -w 0.3 --mode concat -o both"},
    {"tftf adapter combine -i adapter -w 1 -i adapter -w -0.5 --mode svd --rank 4 -o both",
     "the best of rank 4"}};
constexpr CommandExample kExtractExamples[] = {
    {"tftf adapter extract --original before --tuned after --rank 4 -o difference"}};
constexpr std::string_view kAdapterTargets[] = {"peft", "kohya", "diffusers", "comfy", "mlx"};

// A family's id, or what is wrong with it.
std::string check_family(std::string_view value) {
  if (find_adapter_family(value)) return "";
  std::string known;
  for (size_t i = 0; i < kAdapterFamilyCount; ++i)
    known += (i > 0 ? ", " : "") + std::string(adapter_family_id(static_cast<AdapterFamily>(i)));
  return "is no family of adapters: " + known;
}
std::string check_base_family(std::string_view value) {
  std::string known;
  for (const std::string_view id : adapter_base_families()) {
    if (id == value) return "";
    known += (known.empty() ? "" : ", ") + std::string(id);
  }
  return "is no family of models: " + known;
}

constexpr std::string_view kExpertForms[] = {"fused", "split"};

constexpr CommandOption kAdapterConvertOptions[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OptionKind::kPath,
     .shows = "IN",
     .help = "Adapter: a file or its folder",
     .required = true},
    {.name = "to",
     .kind = OptionKind::kChoice,
     .shows = "peft|kohya|diffusers|comfy|mlx",
     .help = "Family to convert to",
     .required = true,
     .choices = kAdapterTargets},
    {.name = "from",
     .shows = "FAMILY",
     .help = "Of a file that mixes families: the one to convert (ids as adapter info gives them)",
     .check = check_family},
    {.name = "base",
     .kind = OptionKind::kPath,
     .shows = "MODEL",
     .help = "Base model: its names say where the dots of an underscored name are; a PEFT adapter is fitted "
             "to its names "
             "and its form of experts"},
    {.name = "experts",
     .kind = OptionKind::kChoice,
     .shows = "fused|split",
     .help =
         "PEFT: form of adapted experts, instead of the base's: one pair for all of a layer, or one for each",
     .choices = kExpertForms},
    {.name = "model-type",
     .shows = "NAME",
     .help = "PEFT: model_type of the base, where no config.json says it"},
    {.name = "base-family",
     .shows = "NAME",
     .help = "Family of the base model where names do not decide: sd1, sd2, sdxl, sd3, flux.1, ...",
     .check = check_base_family},
    {.name = "scale",
     .kind = OptionKind::kNumber,
     .shows = "S",
     .help = "Factor on B*A of an adapter that does not say it"},
    {.name = "alpha", .kind = OptionKind::kNumber, .shows = "A", .help = "The same as alpha over rank"},
    {.name = "allow-partial",
     .kind = OptionKind::kFlag,
     .help = "Leave out what has no place in the target instead of refusing"},
    kToolOutput,
    kToolDryRun,
    kToolOverwrite,
    kToolNoResume,
    kToolTileSize};

constexpr CommandExample kAdapterConvertExamples[] = {
    {"tftf adapter convert -i style.safetensors --to diffusers -o style-diffusers.safetensors"},
    {"tftf adapter convert -i style.safetensors --to peft -o style-peft",
     "a folder with adapter_config.json"},
    {"tftf adapter convert -i adapter --to mlx -o adapter-mlx"},
    {"tftf adapter convert -i moe-adapter --to peft --base moe-base -o fitted",
     "in the base's names, its experts as the base has them"},
    {"tftf adapter convert -i style.safetensors --to comfy --base-family sd1 --dry-run -o out",
     "the plan and the coverage, nothing written"}};

constexpr CommandInfo kAdapterCommands[] = {
    {.path = "adapter",
     .summary = "Identify and convert adapters (LoRA and its kin)",
     .options = kAdapterGroupOptions,
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
    {.path = "adapter convert",
     .summary = "Bring an adapter into the names, the layout and the scale of another family",
     .options = kAdapterConvertOptions,
     .about = "Alphas, ranks and scales keep their meaning: alpha tensors, adapter_config.json, or factors "
              "that have the "
              "scale in them. Query, key and value are split or joined where the families differ. The "
              "account says what "
              "became of each tensor of the input; what has no place in the target is refused, unless "
              "--allow-partial.",
     .examples = kAdapterConvertExamples,
     .status = kConversionStatus},
    {.path = "adapter resize",
     .summary = "Bring an adapter to a lower rank, as near to it as that rank allows",
     .options = kResizeOptions,
     .native = true,
     .about = "The scale of every module stays. What is no pair of factors is copied.",
     .examples = kResizeExamples,
     .status = kConversionStatus},
    {.path = "adapter combine",
     .summary = "Add adapters up, each with its weight",
     .options = kCombineOptions,
     .native = true,
     .about = "The result has the family of the first adapter. A module that one of them lacks counts as "
              "zero there.",
     .examples = kCombineExamples,
     .status = kConversionStatus},
    {.path = "adapter extract",
     .summary = "Make an adapter of the difference of two models",
     .options = kExtractOptions,
     .native = true,
     .about = "Both models are read in strips, several times: memory stays at some vectors per thread.",
     .examples = kExtractExamples,
     .status = kConversionStatus},
};

}  // namespace

std::span<const CommandInfo> adapter_commands() { return kAdapterCommands; }

}  // namespace tftf::command
