// Commands that convert: what is done to a model is in the table of operations.
#include "command/tables.h"

namespace tftf::command {
namespace {

constexpr std::string_view kModelHelp = "Model: a file, a folder or an index";
constexpr std::string_view kShownModel = "MODEL";

constexpr CommandOption kInput{.name = "input",
                               .letter = 'i',
                               .kind = OptionKind::kPath,
                               .shows = kShownModel,
                               .help = kModelHelp,
                               .required = true};
constexpr CommandOption kBase{.name = "base",
                              .letter = 'b',
                              .kind = OptionKind::kPath,
                              .shows = kShownModel,
                              .help = kModelHelp,
                              .required = true};

constexpr CommandOption kInputOnly[] = {kInput};
constexpr CommandOption kBaseOnly[] = {kBase};

constexpr CommandOption kRanksOptions[] = {
    kBase,
    {.name = "shards",
     .letter = 's',
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "File of one rank; once per rank, in their order",
     .repeatable = true},
    {.name = "shard-dir",
     .kind = OptionKind::kPath,
     .shows = "DIR",
     .help = "Folder with the files of all ranks, ordered by their numbers"},
    {.name = "shard-dim",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Dimension along which the parts are put together (0)",
     .least = 0}};

constexpr CommandOption kDistributedOptions[] = {kBase,
                                                 {.name = "checkpoint-dir",
                                                  .letter = 'c',
                                                  .kind = OptionKind::kPath,
                                                  .shows = "DIR",
                                                  .help = "Folder with .metadata, or a training folder",
                                                  .required = true}};

constexpr CommandSpelling kLoraSpellings[] = {{"adapter", "merge-lora"},
                                              {"adapter-config", "lora-config"},
                                              {"adapter-name", "lora-adapter-name"},
                                              {"scale", "lora-scale"},
                                              {"device", ""}};
constexpr CommandSpelling kRenameSpellings[] = {{"rule", "rename"}};
constexpr CommandSpelling kAdapterSpellings[] = {{"adapter", "adapter", 'a'}};
constexpr CommandSpelling kNoAdapter[] = {{"adapter", ""}};

constexpr CommandOperation kPassthrough[] = {{"filter", true}, {"cast", true}};
constexpr CommandOperation kDequantFp8[] = {{"dequant-fp8"}, {"merge-lora", true, kLoraSpellings}};
constexpr CommandOperation kDequant[] = {{"dequant"}, {"merge-lora", true, kLoraSpellings}};
constexpr CommandOperation kQuantize[] = {{"quantize"}};
constexpr CommandOperation kRepack[] = {{"repack"}};
constexpr CommandOperation kGraft[] = {{"graft"}};
constexpr CommandOperation kConvert[] = {{"convert"}};
constexpr CommandOperation kMergeLora[] = {
    {"rename", true, kRenameSpellings}, {"merge-lora", false, kAdapterSpellings}, {"cast", true}};
// The command finds its adapter by options of its own.
constexpr CommandOperation kMergeOther[] = {
    {"rename", true, kRenameSpellings}, {"merge-lora", false, kNoAdapter}, {"cast", true}};

constexpr CommandExample kPassthroughExamples[] = {
    {"tftf passthrough -i model -o copy --max-shard-size 5GB", "packed into other shards"},
    {"tftf passthrough -i model -o one.safetensors", "one file"},
    {"tftf passthrough -i base -o half --dtype float16", "cast"},
    {"tftf passthrough -i model -o text --exclude 'vision.*' --dry-run"}};
constexpr CommandExample kDequantFp8Examples[] = {
    {"tftf dequant-fp8 -i DeepSeek-V3 -o DeepSeek-V3-bf16"},
    {"tftf dequant-fp8 -i model -o out --dry-run", "the plan and the account, nothing written"},
    {"tftf dequant-fp8 -i Qwen3-FP8 -o merged --merge-lora Qwen3-adapter",
     "an adapter merged in the same pass"}};
constexpr CommandExample kDequantExamples[] = {
    {"tftf dequant -i model -o model-bf16"},
    {"tftf dequant -i model -o model-f32 --dtype float32"},
    {"tftf dequant -i model -o part --include '*.mlp.*' --dry-run"}};
constexpr CommandExample kQuantizeExamples[] = {
    {"tftf quantize -i model -o model-blocks --to fp8-block --exclude lm_head.weight"},
    {"tftf quantize -i model -o model-int4 --to colibri-int4-grouped --group-size 32"}};
constexpr CommandExample kRepackExamples[] = {
    {"tftf repack -i GLM-FP8 -o glm-colibri --to colibri-fp8", "FP8 blocks as colibri stores them"},
    {"tftf repack -i glm-colibri -o GLM-again --to fp8-block", "and back, bit by bit"}};
constexpr CommandExample kGraftExamples[] = {
    {"tftf graft -i tuned --from source --missing -o whole", "what a save has lost"},
    {"tftf graft -i tuned --from source --include 'lm_head.*' --replace -o out", "the head of the source"}};
constexpr CommandExample kLayoutExamples[] = {
    {"tftf convert -i mixtral -o mixtral-5 --to transformers-5", "names and fused experts of transformers 5"},
    {"tftf convert -i mixtral -o mixtral-dry --to transformers-5 --experts split --dry-run",
     "its names, a tensor for each expert"},
    {"tftf convert -i gemma3 -o gemma3-text --part text", "the text model alone"}};
constexpr CommandExample kMergeLoraExamples[] = {
    {"tftf merge-lora -b base -a adapter -o merged"},
    {"tftf merge-lora -b base -a runs/checkpoint-500 -o merged --scale 0.5 --dry-run"}};
constexpr CommandExample kRanksExamples[] = {
    {"tftf merge-fsdp-lora -b base --shard-dir run/adapter -o merged"},
    {"tftf merge-fsdp-lora -b base -s rank0.safetensors -s rank1.safetensors -o merged"}};
constexpr CommandExample kDistributedExamples[] = {
    {"tftf merge-dcp-lora -b base -c runs/step-1000 -o merged"}};
constexpr CommandExample kRunExamples[] = {
    {"tftf run -i model -o out --dequant-fp8 bf16 --key-filter --exclude '*.bias'"},
    {"tftf run -i model -o out --dequant --quantize colibri-int8-row --reshard 5GB"},
    {"tftf run -i base -o out --key-rename '^model\\.' '' --dtype-cast float16"}};
constexpr CommandExample kValidateExamples[] = {
    {"tftf validate model"}, {"tftf validate base --pipe dtype:float16 --json", "would a cast overflow?"}};

constexpr CommandWord kModelWord[] = {{.name = kShownModel, .help = kModelHelp}};
constexpr CommandOption kValidateOptions[] = {
    {.name = "pipe",
     .shows = "SPEC",
     .help = "What to run: dtype:D, filter:GLOB or exclude:GLOB; without it the model as it is"}};

constexpr CommandInfo kTransformCommands[] = {
    {.path = "passthrough",
     .summary = "Copy a model: filtered, cast, packed anew, or just as it is",
     .options = kInputOnly,
     .operations = kPassthrough,
     .writes = true,
     .examples = kPassthroughExamples,
     .status = kConversionStatus},
    {.path = "dequant-fp8",
     .summary = "Turn FP8 weights with their scales into plain floats",
     .options = kInputOnly,
     .operations = kDequantFp8,
     .writes = true,
     .examples = kDequantFp8Examples,
     .status = kConversionStatus},
    {.path = "dequant",
     .summary = "Turn quantised weights into plain floats",
     .options = kInputOnly,
     .operations = kDequant,
     .writes = true,
     .examples = kDequantExamples,
     .status = kConversionStatus},
    {.path = "quantize",
     .summary = "Round float weights to a quantised layout",
     .options = kInputOnly,
     .operations = kQuantize,
     .writes = true,
     .examples = kQuantizeExamples,
     .status = kConversionStatus},
    {.path = "repack",
     .summary = "Put quantised weights into another container, codes untouched",
     .options = kInputOnly,
     .operations = kRepack,
     .writes = true,
     .examples = kRepackExamples,
     .status = kConversionStatus},
    {.path = "graft",
     .summary = "Take tensors that a model has lost from another checkpoint of it",
     .options = kInputOnly,
     .operations = kGraft,
     .writes = true,
     .examples = kGraftExamples,
     .status = kConversionStatus},
    {.path = "convert",
     .summary = "Bring names and experts into another layout, or take the text model out",
     .options = kInputOnly,
     .operations = kConvert,
     .writes = true,
     .examples = kLayoutExamples,
     .status = kConversionStatus},
    {.path = "merge-lora",
     .summary = "Merge an adapter into a model",
     .options = kBaseOnly,
     .operations = kMergeLora,
     .writes = true,
     .examples = kMergeLoraExamples,
     .status = kConversionStatus},
    {.path = "merge-fsdp-lora",
     .summary = "Merge an adapter that each rank of a training run saved its part of",
     .options = kRanksOptions,
     .operations = kMergeOther,
     .writes = true,
     .examples = kRanksExamples,
     .status = kConversionStatus},
    {.path = "merge-dcp-lora",
     .summary = "Merge an adapter of a distributed checkpoint (PyTorch DCP)",
     .options = kDistributedOptions,
     .operations = kMergeOther,
     .writes = true,
     .examples = kDistributedExamples,
     .status = kConversionStatus},
    {.path = "run",
     .summary = "Run a model through a chain of operations in one pass",
     .options = kInputOnly,
     .writes = true,
     .chain = true,
     .examples = kRunExamples,
     .status = kConversionStatus},
    {.path = "validate",
     .summary = "Run a model through a pipe with all its data, writing nothing",
     .words = kModelWord,
     .options = kValidateOptions,
     .examples = kValidateExamples,
     .status =
         "0 (also with values that are not finite: they are counted), 1 refused or failed, 2 usage error."},
};

}  // namespace

std::span<const CommandInfo> transform_commands() { return kTransformCommands; }

}  // namespace tftf::command
