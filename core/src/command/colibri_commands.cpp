// Tools for the weight containers of colibri (spec colibri 4, cli 3).
#include "command/tables.h"

namespace tftf::command {
namespace {

constexpr std::string_view kFolders = "Folders";
constexpr uint64_t kMostLayers = uint64_t{1} << 30;
constexpr uint64_t kMostBits = 1000;

std::string check_width(std::string_view text) {
  const bool digits =
      !text.empty() && text.size() < 4 && text.find_first_not_of("0123456789") == std::string_view::npos;
  return text == "e8" || digits ? "" : "is neither a number of bits nor e8";
}

std::string check_layers(std::string_view text) {
  bool digit = false;
  size_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if ((c != ',' && digits == 0) || digits > 15 || (c == ',' && !digit))
      return "is no list of numbers: 3,4,5";
    digit = digits > 0;
  }
  return digit ? "" : "is no list of numbers: 3,4,5";
}

constexpr CommandOption kIndir{.name = "indir",
                               .kind = OptionKind::kPath,
                               .shows = "DIR",
                               .help = "Folder with the shards to read",
                               .group = kFolders,
                               .required = true};
constexpr CommandOption kOutdir{.name = "outdir",
                                .kind = OptionKind::kPath,
                                .shows = "DIR",
                                .help = "Folder to write to; it may hold the outputs of earlier passes",
                                .group = kFolders,
                                .required = true};
constexpr CommandOption kDryRun{.name = "dry-run",
                                .kind = OptionKind::kFlag,
                                .help = "Print the plan and the account, write nothing",
                                .group = kFolders};
constexpr CommandOption kStrict{.name = "strict",
                                .kind = OptionKind::kFlag,
                                .help = "Refuse what a reader would misread where that is a warning else",
                                .group = kFolders};
constexpr CommandOption kOverwrite{.name = "overwrite",
                                   .kind = OptionKind::kFlag,
                                   .help = "Replace files of the same names",
                                   .group = kFolders};
constexpr CommandOption kNoResume{.name = "no-resume",
                                  .kind = OptionKind::kFlag,
                                  .help = "Start anew where an earlier run was interrupted",
                                  .group = kFolders};
constexpr CommandOption kDeleteSource{
    .name = "delete-source",
    .kind = OptionKind::kFlag,
    .help = "Remove the source shards that were read, once all outputs are safely on the disk",
    .group = kFolders,
    .native = true};
constexpr CommandOption kTileSize{.name = "tile-size",
                                  .kind = OptionKind::kSize,
                                  .shows = "SIZE",
                                  .help = "Bytes of one step",
                                  .group = ""};
constexpr CommandOption kWorkers{.name = "workers",
                                 .kind = OptionKind::kInteger,
                                 .shows = "N",
                                 .help = "Taken for the original's sake; --threads decides",
                                 .group = "",
                                 .least = 0};
constexpr CommandOption kLayers{.name = "n-layers",
                                .kind = OptionKind::kInteger,
                                .shows = "N",
                                .help = "Layers of the model; layer N is the MTP layer (78)",
                                .least = 0,
                                .most = kMostLayers};
constexpr CommandOption kMtp{
    .name = "mtp", .kind = OptionKind::kFlag, .help = "The MTP layer instead of the main model"};

constexpr CommandOption bits(std::string_view name, std::string_view help) {
  return {
      .name = name, .kind = OptionKind::kInteger, .shows = "N", .help = help, .least = 0, .most = kMostBits};
}
constexpr CommandOption width(std::string_view name, std::string_view help) {
  return {.name = name, .shows = "N|e8", .help = help, .check = check_width};
}
constexpr CommandOption count(std::string_view name, std::string_view help) {
  return {.name = name,
          .kind = OptionKind::kInteger,
          .shows = "N",
          .help = help,
          .least = 0,
          .most = std::numeric_limits<uint64_t>::max()};
}

constexpr CommandOption kRepackOptions[] = {kIndir,
                                            kOutdir,
                                            kDryRun,
                                            kStrict,
                                            kOverwrite,
                                            kNoResume,
                                            kDeleteSource,
                                            kTileSize,
                                            kLayers,
                                            kMtp,
                                            {.name = "pass-plain",
                                             .kind = OptionKind::kFlag,
                                             .help = "Copy plain float tensors of no known kind instead of "
                                                     "refusing them"}};

constexpr CommandOption kConvertOptions[] = {
    kIndir,
    kOutdir,
    kDryRun,
    kStrict,
    kOverwrite,
    kNoResume,
    kDeleteSource,
    kTileSize,
    bits("ebits", "Bits of codes (4; 8 with --mtp and --indexer)"),
    bits("io-bits", "Bits of embedding and output head (8)"),
    width("xbits", "Bits of routed experts, or e8 (--ebits)"),
    bits("shared-bits", "Bits of shared experts"),
    bits("o-bits", "Bits of o_proj"),
    bits("kvb-bits", "Bits of kv_b_proj"),
    bits("attn-bits", "Bits of the other attention matrices"),
    bits("dmlp-bits", "Bits of dense MLPs"),
    width("up-bits", "Bits of up_proj of routed experts, or e8"),
    width("gate-bits", "Bits of gate_proj of routed experts, or e8"),
    width("down-bits", "Bits of down_proj of routed experts, or e8"),
    count("group-size", "Columns per scale of codes of up to 4 bits, 0: whole rows (64)"),
    kLayers,
    kMtp,
    {.name = "indexer",
     .kind = OptionKind::kFlag,
     .help = "The sparse-attention indexer instead of the main model"},
    kWorkers,
    {.name = "jobs",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Taken for the original's sake; --threads decides",
     .group = "",
     .least = 0}};

constexpr CommandOption kRegroupOptions[] = {kIndir,    kOutdir,       kDryRun,   kStrict, kOverwrite,
                                             kNoResume, kDeleteSource, kTileSize, kWorkers};

constexpr CommandOption optional(CommandOption option) {
  option.required = false;
  return option;
}
constexpr CommandOption kRansOptions[] = {
    optional(kIndir),
    optional(kOutdir),
    kDryRun,
    kStrict,
    kOverwrite,
    kNoResume,
    kDeleteSource,
    kTileSize,
    {.name = "layers", .shows = "LIST", .help = "Only these layers: 3,4,5", .check = check_layers},
    {.name = "force", .kind = OptionKind::kFlag, .help = "The same as --overwrite", .same_as = "overwrite"},
    {.name = "manifest-only",
     .kind = OptionKind::kPath,
     .shows = "DIR",
     .help = "Write repack-manifest.json for the container in DIR, and nothing else",
     .native = true}};

constexpr CommandOption kFile{.name = "input",
                              .letter = 'i',
                              .kind = OptionKind::kPath,
                              .shows = "FILE",
                              .help = "File",
                              .required = true};
constexpr CommandOption kGroupSize{.name = "group-size",
                                   .kind = OptionKind::kInteger,
                                   .shows = "N",
                                   .help = "Columns per scale of int4-grouped"};
constexpr CommandOption kQuantizeOptions[] = {
    kFile,
    {.name = "format",
     .shows = "NAME",
     .help = "int8-row, int4-row, int2-row, int4-grouped, int3-g64, e8-iq3-lattice or fp8-e4m3-b128",
     .required = true},
    kGroupSize,
    {.name = "bits",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Bits of a code: 2 to 8 in int8-row, 2 to 4 in the int4 formats"},
    {.name = "strict",
     .kind = OptionKind::kFlag,
     .help = "Refuse what a reader would take for another format"}};
constexpr CommandOption kDequantOptions[] = {
    kFile,
    {.name = "format",
     .shows = "NAME",
     .help = "int8-row, int4-row, int2-row, int4-grouped, int3-g64, e8-iq3-lattice, fp8-e4m3-b128 or "
             "int4-rans256-g0",
     .required = true},
    kGroupSize,
    {.name = "rows",
     .kind = OptionKind::kInteger,
     .shows = "N",
     .help = "Rows of every matrix",
     .required = true},
    {.name = "cols", .kind = OptionKind::kInteger, .shows = "N", .help = "Its columns", .required = true}};

constexpr CommandOption kResolveOptions[] = {
    {.name = "batch", .kind = OptionKind::kPath, .shows = "FILE", .help = "JSON array of pairs"},
    count("rows", "Output rows O"),
    count("cols", "Input columns I"),
    count("weight-bytes", "Bytes of NAME"),
    count("scale-bytes", "Bytes of NAME.qs"),
    {.name = "stamp", .shows = "FORMAT", .help = "Format that the container's stamp claims"},
    {.name = "routed", .kind = OptionKind::kFlag, .help = "A routed expert: its stamp is not consulted"}};
constexpr CommandOption kClassifyOptions[] = {
    {.name = "batch",
     .kind = OptionKind::kPath,
     .shows = "FILE",
     .help = "JSON array of [name, number of layers, MTP pass, indexer pass]",
     .required = true}};
constexpr CommandWord kStampsWords[] = {
    {.name = "PATH", .help = "A .safetensors file, a folder, or an index file"}};
constexpr CommandOption kStampsOptions[] = {
    {.name = "query", .shows = "NAME", .help = "Tensor to look up", .repeatable = true}};
constexpr CommandWord kContainer[] = {{.name = "DIR", .help = "Folder of the container"}};

constexpr CommandExample kFolderRepackExamples[] = {
    {"tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-fp8-colibri", "the main model"},
    {"tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-fp8-colibri --mtp --pass-plain",
     "the MTP layer, beside it"},
    {"tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-fp8-dry --dry-run"}};
constexpr CommandExample kConvertExamples[] = {
    {"tftf colibri convert --indir GLM-FP8 --outdir glm-int4-new"},
    {"tftf colibri convert --indir GLM-FP8 --outdir glm-int4-new --mtp"},
    {"tftf colibri convert --indir GLM-BF16 --outdir out --xbits e8 --o-bits 8 --dry-run"}};
constexpr CommandExample kRegroupExamples[] = {
    {"tftf colibri fmt4-to-fmt2 --indir glm-grouped --outdir glm-int4-row"}};
constexpr CommandExample kRansExamples[] = {
    {"tftf colibri rans-repack --indir glm-int4 --outdir glm-rans", "routed experts, range coded"},
    {"tftf colibri rans-repack --indir glm-int4 --outdir glm-rans-3 --layers 1,3"},
    {"tftf colibri rans-repack --manifest-only glm-rans --force", "digests of a container that has none"}};
constexpr CommandExample kFileQuantizeExamples[] = {
    {"tftf colibri quantize --format int4-grouped --group-size 128 -i w.safetensors -o q4.safetensors"},
    {"tftf colibri quantize --format int8-row --bits 6 -i w.safetensors -o q6.safetensors"}};
constexpr CommandExample kFileDequantExamples[] = {
    {"tftf colibri dequant --format int8-row --rows 64 --cols 128 -i q.safetensors -o w-again.safetensors"}};
constexpr CommandExample kResolveExamples[] = {
    {"tftf colibri resolve --rows 2048 --cols 6144 --weight-bytes 12582912 --scale-bytes 8192"},
    {"tftf colibri resolve --rows 64 --cols 98 --weight-bytes 6272 --scale-bytes 4 --stamp e8-iq3-lattice"},
    {"tftf colibri resolve --batch pairs.json",
     "[{\"O\", \"I\", \"weight_bytes\", \"scale_bytes\", \"stamp\", \"routed\"}, ...]"}};
constexpr CommandExample kClassifyExamples[] = {
    {"tftf colibri classify --batch names.json",
     "[[\"model.layers.3.mlp.gate.weight\", 78, false, false], ...]"}};
constexpr CommandExample kStampsExamples[] = {
    {"tftf colibri stamps container/ --query model.layers.3.self_attn.o_proj.weight"},
    {"tftf colibri stamps out-00000.safetensors --query a --query b"}};
constexpr CommandExample kVerifyExamples[] = {{"tftf colibri rans-verify glm-rans"},
                                              {"tftf colibri rans-verify glm-rans --json | jq .refusals"}};

constexpr CommandOption kGroupOptions[] = {{.name = "help",
                                            .letter = 'h',
                                            .kind = OptionKind::kFlag,
                                            .help = "Show this help",
                                            .group = kGeneralGroup}};

constexpr CommandInfo kColibriCommands[] = {
    {.path = "colibri",
     .summary = "Tools for the weight containers of colibri",
     .options = kGroupOptions,
     .common = false},
    {.path = "colibri repack-fp8",
     .summary = "Turn FP8 weights with block scales into fp8-e4m3-b128, codes untouched",
     .options = kRepackOptions,
     .examples = kFolderRepackExamples,
     .status = kConversionStatus},
    {.path = "colibri rans-repack",
     .summary = "Range-code the routed experts of a per-row int4 container",
     .options = kRansOptions,
     .examples = kRansExamples,
     .status = kConversionStatus},
    {.path = "colibri resolve",
     .summary = "Say which format a reader infers from byte counts, or why it refuses",
     .options = kResolveOptions,
     .about = "Prints {\"verdict\", \"fmt\", \"group_size\", \"class\"}, for --batch an array of them.",
     .examples = kResolveExamples,
     .status = "0 (with --batch whatever the verdicts), 1 the reader refuses, 2 usage error."},
    {.path = "colibri classify",
     .summary = "Say which pass of the converters takes a tensor name, and as what",
     .options = kClassifyOptions,
     .about = "Prints an array of kinds: skip, consumed, f32, io (embedding and head), x (routed experts), "
              "sh (shared "
              "experts), o, kvb, attn, dmlp (dense MLP), q (anything else that is quantised).",
     .examples = kClassifyExamples,
     .status = "0, 1 the file is not such a list, 2 usage error."},
    {.path = "colibri convert",
     .summary = "Convert an FP8, NVFP4 or plain model to the integer and lattice formats",
     .options = kConvertOptions,
     .examples = kConvertExamples,
     .status = kConversionStatus},
    {.path = "colibri fmt4-to-fmt2",
     .summary = "Convert int4-grouped in groups of 64 to int4-row",
     .options = kRegroupOptions,
     .examples = kRegroupExamples,
     .status = kConversionStatus},
    {.path = "colibri quantize",
     .summary = "Quantise every float matrix of a file",
     .options = kQuantizeOptions,
     .writes = true,
     .examples = kFileQuantizeExamples,
     .status = kConversionStatus},
    {.path = "colibri dequant",
     .summary = "Dequantise every NAME with a NAME.qs of a file to float32",
     .options = kDequantOptions,
     .writes = true,
     .examples = kFileDequantExamples,
     .status = kConversionStatus},
    {.path = "colibri stamps",
     .summary = "Say which formats a container's stamps claim",
     .words = kStampsWords,
     .options = kStampsOptions,
     .about =
         "Prints {\"verdict\", \"class\", \"stamps\"}: each queried name with the format it is stamped, or "
         "(none).",
     .examples = kStampsExamples,
     .status = "0, 1 a reader refuses the container's stamps, 2 usage error or PATH missing."},
    {.path = "colibri rans-verify",
     .summary = "Check a range-coded container: stamps, table, digests, and every record bit by bit",
     .words = kContainer,
     .native = true,
     .about = "Reads out-rans-*.safetensors, if there is none every .safetensors of the folder, and "
              "repack-manifest.json when it is there. Prints TRUST, or REFUSE with a line per reason.",
     .examples = kVerifyExamples,
     .status =
         "0 TRUST, 1 REFUSE or there is nothing to verify, 2 usage error or DIR missing, 130 interrupted."},
};

}  // namespace

std::span<const CommandInfo> colibri_commands() { return kColibriCommands; }

}  // namespace tftf::command
