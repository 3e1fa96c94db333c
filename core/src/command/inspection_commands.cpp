// Commands that look at models and write none.
#include "command/tables.h"
#include "tftf/inspect/statistics.h"

namespace tftf::command {
namespace {

constexpr CommandWord kModel[] = {
    {.name = "MODEL", .help = "A .safetensors file, a folder, or an index file"}};
constexpr CommandWord kTwoModels[] = {{.name = "LEFT", .help = "A model: a file, a folder or an index"},
                                      {.name = "RIGHT", .help = "The other one"}};
// Not marked as required: `lint rules` goes without.
constexpr CommandWord kPaths[] = {{.name = "PATH",
                                   .help = "Files, index files, or folders with everything below them",
                                   .required = false,
                                   .repeatable = true}};
constexpr CommandWord kRule[] = {{.name = "ID", .help = "Rule id, such as ST041", .required = false}};

constexpr CommandOption kInclude{.name = "include",
                                 .kind = OptionKind::kGlob,
                                 .shows = "GLOB",
                                 .help = "Only tensors whose name matches; may be repeated",
                                 .repeatable = true};
constexpr CommandOption kExclude{.name = "exclude",
                                 .kind = OptionKind::kGlob,
                                 .shows = "GLOB",
                                 .help = "Not tensors whose name matches; may be repeated",
                                 .repeatable = true};
constexpr CommandOption kTensor{.name = "tensor",
                                .shows = "NAME",
                                .help = "Only the tensor of exactly this name; may be repeated",
                                .repeatable = true};

std::string check_cells(std::string_view text) {
  const auto cells = two_numbers(text, 'x');
  return cells && cells->first > 0 && cells->second > 0 ? "" : "is not HEIGHTxWIDTH";
}
std::string check_interval(std::string_view text) {
  const auto ends = two_numbers(text, ':');
  return ends && ends->first < ends->second ? "" : "is not BEGIN:END with BEGIN below END";
}

constexpr CommandOption kInfoOptions[] = {
    {.name = "filter", .shows = "TEXT", .help = "Only tensors whose name holds this text"},
    {.name = "dtype-summary",
     .kind = OptionKind::kFlag,
     .help = "Dtypes and their counts instead of tensors"},
    {.name = "offsets", .kind = OptionKind::kFlag, .help = "Show where each tensor lies in its data section"},
    {.name = "fold",
     .kind = OptionKind::kFlag,
     .help = "Fold layer and expert numbers; on a terminal this is done for long lists"},
    {.name = "no-fold", .kind = OptionKind::kFlag, .help = "Fold nothing", .same_as = "fold"}};

constexpr CommandOption kStatsOptions[] = {
    kInclude,
    kExclude,
    kTensor,
    {.name = "logical",
     .kind = OptionKind::kFlag,
     .help = "Quantised weights dequantised, in the dtype that their layout gives"},
    {.name = "histogram",
     .kind = OptionKind::kInteger,
     .shows = "BINS",
     .help = "Count the values in this many bins of equal width",
     .most = StatisticsRequest::kMaxBins},
    {.name = "heat-map",
     .shows = "HEIGHTxWIDTH",
     .help = "Instead of statistics: means of blocks of one tensor, at most so many down and across",
     .check = check_cells},
    {.name = "rows",
     .shows = "BEGIN:END",
     .help = "The heat map of these rows alone",
     .check = check_interval},
    {.name = "columns",
     .shows = "BEGIN:END",
     .help = "The heat map of these columns alone",
     .check = check_interval}};

constexpr CommandOption kDiffOptions[] = {
    kInclude,
    kExclude,
    kTensor,
    {.name = "values", .kind = OptionKind::kFlag, .help = "Read the data: how far values lie apart"},
    {.name = "tolerance",
     .kind = OptionKind::kNumber,
     .shows = "T",
     .help = "Values count as equal up to this relative L2 distance per tensor; implies --values"},
    {.name = "strict",
     .kind = OptionKind::kFlag,
     .help = "With --values: dtypes, layouts, metadata and configuration count, too"}};

constexpr CommandOption kLintOptions[] = {
    {.name = "data",
     .kind = OptionKind::kFlag,
     .help = "Read the tensors' values too (NaN, infinities, zeros, duplicates)"},
    {.name = "base",
     .kind = OptionKind::kPath,
     .shows = "DIR",
     .help = "Base model that adapters are checked against"},
    {.name = "fail-on",
     .shows = "error|warning|info",
     .help = "Level from which on the exit status is 1 (error)"},
    {.name = "strict", .kind = OptionKind::kFlag, .help = "The same as --fail-on warning"},
    {.name = "ignore", .shows = "ID[,ID]", .help = "Leave these rules out", .repeatable = true},
    {.name = "only", .shows = "ID[,ID]", .help = "Check these rules only", .repeatable = true},
    {.name = "severity",
     .shows = "ID=LEVEL",
     .help = "Treat a rule as error, warning, info or hint, or turn it off",
     .repeatable = true},
    {.name = "max-issues",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Most messages of one rule in one file (100; 0: all). Counts stay whole",
     .least = 0,
     .most = std::numeric_limits<uint64_t>::max()},
    {.name = "config",
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "JSON file with ignore, only, override, max-issues"},
    {.name = "baseline",
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "Findings that are known and do not count",
     .native = true},
    {.name = "write-baseline",
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "Write all findings to this file as known ones; the exit status is 0",
     .native = true},
    {.name = "format",
     .shows = "text|json|sarif|github|junit",
     .help = "Form of the report (text)",
     .group = kOutputGroup},
    {.name = "output",
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "Write the report to this file",
     .group = kOutputGroup},
    {.name = "timestamp",
     .kind = OptionKind::kFlag,
     .help = "Put the time into the report",
     .group = kOutputGroup}};

constexpr CommandExample kInfoExamples[] = {
    {"tftf info model/", "what it is, and its tensors"},
    {"tftf info --fold model/", "layers folded: model.layers.#.mlp.up_proj.weight, 61 times"},
    {"tftf info --dtype-summary model/", "dtypes instead of tensors"},
    {"tftf info --filter q_proj --offsets m.safetensors"},
    {"tftf info --json adapter/ | jq .adapter"}};
constexpr CommandExample kStatsExamples[] = {
    {"tftf stats model/", "a line per tensor, values as they are stored"},
    {"tftf stats --logical model-fp8/", "quantised weights as the weights that they stand for"},
    {"tftf stats --include '*.mlp.*' --histogram 20 m.safetensors"},
    {"tftf stats --tensor model.norm.weight --heat-map 32x100 model/"},
    {"tftf stats --json model/ | jq '.tensors[] | select(.nan > 0).name'"}};
constexpr CommandExample kDiffExamples[] = {
    {"tftf diff model/ model/", "headers and configuration, no data read"},
    {"tftf diff --values model-fp8/ model-bf16/", "is it the same model?"},
    {"tftf diff --tolerance 5e-2 model-bf16/ quantised/", "values within 5 % (relative L2 per tensor)"},
    {"tftf diff --values --json m.safetensors m.safetensors | jq '.tensors[].distance'"}};
constexpr CommandExample kLintExamples[] = {
    {"tftf-lint model.safetensors", "one file"},
    {"tftf-lint --data models/", "everything below a folder, values too"},
    {"tftf-lint --strict --ignore ST044,ST053 m/", "warnings fail, two rules do not count"},
    {"tftf-lint --format sarif --output r.sarif m/", "for code scanning"},
    {"tftf-lint --base base/ adapter/", "an adapter against its base model"},
    {"tftf-lint rules ST041", "what a rule means"}};
constexpr CommandExample kRulesExamples[] = {
    {"tftf-lint rules"}, {"tftf-lint rules ST041"}, {"tftf-lint rules --json"}};
constexpr CommandInfo kInspectionCommands[] = {
    {.path = "lint",
     .summary = "Check files and folders against the rules of the format and its loaders",
     .words = kPaths,
     .options = kLintOptions,
     .examples = kLintExamples,
     .status =
         "0 nothing at the fail level, 1 something is, 2 usage error or PATH missing, 3 internal error."},
    {.path = "lint rules",
     .summary = "List the rules, or explain one",
     .words = kRule,
     .examples = kRulesExamples,
     .status = "0, 2 usage error or no such rule."},
    {.path = "info",
     .summary = "Say what a model is: kind, layouts, sizes, tensors",
     .words = kModel,
     .options = kInfoOptions,
     .examples = kInfoExamples,
     .status = "0, 1 when no weight file is sound, 2 usage error or MODEL missing."},
    {.path = "stats",
     .summary = "Look at all values: extremes, mean, deviation, NaN, histograms",
     .words = kModel,
     .options = kStatsOptions,
     .examples = kStatsExamples,
     .status =
         "0, 1 when the model is not sound or a named tensor is not there, 2 usage error or MODEL missing."},
    {.path = "diff",
     .summary = "Compare two models: names, dtypes, shapes, values, configuration",
     .words = kTwoModels,
     .options = kDiffOptions,
     .about =
         "Without --values names, dtypes, shapes, metadata and configuration are compared, and anything that "
         "differs counts. With --values names, shapes and values count; dtypes, layouts, metadata and "
         "configuration are told, and count with --strict. Quantised weights are compared as the weights "
         "that "
         "they stand for.",
     .examples = kDiffExamples,
     .status = "0 no difference, 1 different or not sound, 2 usage error or a model missing."},
};

}  // namespace

std::optional<std::pair<uint64_t, uint64_t>> two_numbers(std::string_view text, char between) {
  const size_t at = text.find(between);
  if (at == std::string_view::npos) return std::nullopt;
  uint64_t number[2] = {};
  const std::string_view parts[2] = {text.substr(0, at), text.substr(at + 1)};
  for (int i = 0; i < 2; ++i) {
    if (parts[i].empty() || parts[i].size() > 15) return std::nullopt;
    for (const char c : parts[i]) {
      if (c < '0' || c > '9') return std::nullopt;
      number[i] = number[i] * 10 + static_cast<uint64_t>(c - '0');
    }
  }
  return std::pair(number[0], number[1]);
}

std::span<const CommandInfo> inspection_commands() { return kInspectionCommands; }

}  // namespace tftf::command
