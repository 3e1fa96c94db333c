// The operations and their options: what commands, chains, page and package are made of.
#include "pipe.h"
#include "tftf/transform/operation.h"

namespace tftf {
namespace {

constexpr std::string_view kAnyDtypes[] = {"float32", "float16", "bfloat16", "float64"};
constexpr std::string_view kDequantDtypes[] = {"bfloat16", "float16", "float32"};

constexpr OptionInfo kAllowUnscaled{.name = "allow-unscaled",
                                    .kind = OptionKind::kFlag,
                                    .help = "Take FP8 codes as they are where no scale is applied to them"};

constexpr OptionInfo kFilterOptions[] = {
    {.name = "include",
     .kind = OptionKind::kGlob,
     .help = "Keep only tensors whose name matches; * ? [set] match as in Python's fnmatch",
     .repeatable = true},
    {.name = "exclude",
     .kind = OptionKind::kGlob,
     .help = "Leave out tensors whose name matches, also where --include matches",
     .repeatable = true}};

constexpr OptionInfo kRenameOptions[] = {
    {.name = "rule",
     .kind = OptionKind::kRule,
     .help =
         "Pattern and replacement, as for Python's re.sub (\\d \\w \\s match ASCII); rules apply in order",
     .required = true,
     .repeatable = true}};

constexpr OptionInfo kCastOptions[] = {{.name = "dtype",
                                        .kind = OptionKind::kChoice,
                                        .choices = kAnyDtypes,
                                        .help = "What to cast to",
                                        .required = true},
                                       {.name = "cast-floats-only",
                                        .kind = OptionKind::kFlag,
                                        .help = "Leave integers and booleans as they are"},
                                       kAllowUnscaled};

constexpr std::string_view kWeightScaleSenses[] = {"multiply", "divide"};

constexpr OptionInfo kDequantFp8Options[] = {
    {.name = "dtype",
     .kind = OptionKind::kChoice,
     .fallback = "bfloat16",
     .choices = kDequantDtypes,
     .help = "Dtype of the result"},
    {.name = "block-size",
     .kind = OptionKind::kInteger,
     .unit = "elements",
     .help = "Rows and columns that one scale covers; else weight_block_size of config.json, else 128"},
    {.name = "weight-scale",
     .kind = OptionKind::kChoice,
     .choices = kWeightScaleSenses,
     .help =
         "What a plain weight_scale does where neither configuration nor marker tells; every known producer "
         "multiplies"},
    kAllowUnscaled,
    {.name = "device",
     .help = "Taken for the original's sake: everything runs on the processor",
     .ignored = true}};

constexpr std::string_view kResultDtypes[] = {"bfloat16", "float16", "float32", "native"};

constexpr OptionInfo kDequantOptions[] = {
    {.name = "dtype",
     .kind = OptionKind::kChoice,
     .choices = kResultDtypes,
     .help = "Dtype of the result; native is the layout's own. Else config.json's dtype, else native"},
    {.name = "layout", .help = "Layout ID, where detection calls it ambiguous"},
    {.name = "include",
     .kind = OptionKind::kGlob,
     .help = "Dequantise only modules whose name matches",
     .repeatable = true},
    {.name = "exclude", .kind = OptionKind::kGlob, .help = "Leave modules as they are", .repeatable = true},
    {.name = "rows",
     .kind = OptionKind::kInteger,
     .help = "Rows of every matrix in a colibri container of --layout that no config.json describes"},
    {.name = "cols", .kind = OptionKind::kInteger, .help = "Its columns"},
    {.name = "group-size", .kind = OptionKind::kInteger, .help = "Its columns per scale"}};

// Those that have an encoder, and their other names; a test compares them.
constexpr std::string_view kWrittenLayouts[] = {"fp8-block",
                                                "gptq-v1",
                                                "gptq",
                                                "gptq-v2",
                                                "awq-gemm",
                                                "awq",
                                                "bnb-nf4",
                                                "bnb-fp4",
                                                "mlx-affine",
                                                "comfy-fp8",
                                                "comfy-nvfp4",
                                                "colibri-int8-row",
                                                "colibri-int4-row",
                                                "colibri-int2-row",
                                                "colibri-int4-grouped",
                                                "colibri-int3-g64",
                                                "colibri-e8-iq3-lattice",
                                                "colibri-fp8-e4m3-b128",
                                                "colibri-fp8",
                                                "compressed-tensors"};

constexpr OptionInfo kQuantizeOptions[] = {
    {.name = "to",
     .kind = OptionKind::kChoice,
     .choices = kWrittenLayouts,
     .help = "Layout of the result",
     .required = true},
    {.name = "include",
     .kind = OptionKind::kGlob,
     .help = "Quantise the matrices whose name matches, instead of all that are called *.weight",
     .repeatable = true},
    {.name = "exclude",
     .kind = OptionKind::kGlob,
     .help = "Leave matrices as they are whose name matches, also where --include matches",
     .repeatable = true},
    {.name = "bits",
     .kind = OptionKind::kInteger,
     .help = "Bits of a code, where the layout leaves a choice"},
    {.name = "group-size",
     .kind = OptionKind::kInteger,
     .unit = "elements",
     .help = "Columns per scale, where the layout leaves a choice (64; GPTQ and AWQ 128, -1 for whole rows); "
             "bnb: "
             "elements of the flat order",
     .or_all = true},
    {.name = "asymmetric",
     .kind = OptionKind::kFlag,
     .help = "GPTQ and AWQ: a zero point per group, from its smallest and largest value"},
    {.name = "scheme",
     .help = "compressed-tensors: a config.json or a quantization_config object, or a preset: W4A16, W8A8, "
             "FP8_DYNAMIC, NVFP4A16, ...",
     .contents = true},
    {.name = "qparams",
     .kind = OptionKind::kPath,
     .help = "compressed-tensors: a safetensors file with the scales and zero points to quantise by (and "
             "group indices, and scales of activations)",
     .contents = true},
    {.name = "static-qparams",
     .kind = OptionKind::kPath,
     .help = "compressed-tensors: a safetensors file with the scales of static activations",
     .contents = true},
    {.name = "nested",
     .kind = OptionKind::kFlag,
     .help = "Quantise the scales too, where the layout can (bnb-nf4, bnb-fp4: double quantisation)"},
    {.name = "strict",
     .kind = OptionKind::kFlag,
     .help = "Refuse what a reader of colibri containers would take for another format"}};

constexpr std::string_view kRepackTargets[] = {"gptq-v1",
                                               "gptq",
                                               "gptq-v2",
                                               "awq-gemm",
                                               "awq",
                                               "fp8-block",
                                               "colibri-fp8-e4m3-b128",
                                               "colibri-fp8",
                                               "comfy-fp8",
                                               "comfy-quant",
                                               "comfy-nvfp4",
                                               "compressed-tensors"};
constexpr OptionInfo kRepackOptions[] = {{.name = "to",
                                          .kind = OptionKind::kChoice,
                                          .choices = kRepackTargets,
                                          .help = "Layout to write",
                                          .required = true}};

constexpr std::string_view kNameLayouts[] = {"transformers-4", "transformers-5"};
constexpr std::string_view kExpertForms[] = {"fused", "split"};
constexpr std::string_view kParts[] = {"text"};
constexpr OptionInfo kConvertOptions[] = {
    {.name = "to",
     .kind = OptionKind::kChoice,
     .choices = kNameLayouts,
     .help = "Names and experts as released files have them (transformers-4), or as the modules of "
             "transformers 5"},
    {.name = "experts",
     .kind = OptionKind::kChoice,
     .choices = kExpertForms,
     .help = "All experts of a layer in one tensor, or a tensor for each"},
    {.name = "part",
     .kind = OptionKind::kChoice,
     .choices = kParts,
     .help = "Take the text model out of one that sees or hears, with a config.json of its own"},
    {.name = "model-type",
     .kind = OptionKind::kText,
     .help = "Model type, where config.json does not name it"},
    {.name = "allow-unmapped",
     .kind = OptionKind::kFlag,
     .help = "Copy tensors whose names the model type does not know"}};

constexpr std::string_view kAxes[] = {"out-in", "in-out"};
constexpr std::string_view kTokenizers[] = {"model", "adapter"};

constexpr OptionInfo kMergeOptions[] = {
    {.name = "adapter",
     .kind = OptionKind::kPath,
     .help = "Adapter: adapter_model.safetensors, its folder, a training folder, or a distributed "
             "checkpoint; several "
             "merge in the order given",
     .required = true,
     .repeatable = true},
    {.name = "adapter-config",
     .kind = OptionKind::kPath,
     .help = "adapter_config.json to use instead of the one beside the adapter",
     .repeatable = true},
    {.name = "adapter-name",
     .kind = OptionKind::kText,
     .fallback = "default",
     .help = "Name of the adapter in the names of its tensors",
     .repeatable = true},
    {.name = "scale",
     .kind = OptionKind::kNumber,
     .fallback = "1",
     .help =
         "Strength: multiplies the adapter's own scale; of several adapters once for all, or once for each",
     .repeatable = true},
    {.name = "allow-nonfinite",
     .kind = OptionKind::kFlag,
     .help = "Write results that are infinite or NaN where the base was finite"},
    {.name = "strict", .kind = OptionKind::kFlag, .help = "Refuse an adapter without adapter_config.json"},
    {.name = "base-is-residual",
     .kind = OptionKind::kFlag,
     .help = "The base is the one that the adapter's initialisation (PiSSA, OLoRA, ...) has left behind"},
    {.name = "force", .kind = OptionKind::kFlag, .help = "The same as --base-is-residual"},
    {.name = "expert-axes",
     .kind = OptionKind::kChoice,
     .choices = kAxes,
     .help = "How stacked experts are stored, where shapes and PEFT's version do not tell"},
    {.name = "linear-axes",
     .kind = OptionKind::kChoice,
     .choices = kAxes,
     .help = "How square weights are stored, where neither the adapter's other weights nor model_type tell"},
    {.name = "parameters-in-order",
     .kind = OptionKind::kFlag,
     .help = "Where pairs fit several stacked parameters alike, the innermost pair belongs to the one that "
             "target_parameters names first"},
    {.name = "fit",
     .kind = OptionKind::kFlag,
     .help = "Bring the adapter's names and experts to those of the model, where there is one way to do it"},
    {.name = "rename-adapter",
     .kind = OptionKind::kRule,
     .help = "Pattern and replacement for the module names of the adapter alone, as for Python's re.sub; in "
             "order",
     .repeatable = true},
    {.name = "untie-head",
     .kind = OptionKind::kFlag,
     .help = "Write an output head that is tied to the embeddings apart, where the adapter changes one of "
             "the two; "
             "config.json says so"},
    {.name = "tokenizer-from",
     .kind = OptionKind::kChoice,
     .fallback = "model",
     .choices = kTokenizers,
     .help = "Whose tokenizer the result has: the model's, or the one in the adapter's folder, in which "
             "tokens may have been added",
     .repeatable = true},
    {.name = "device",
     .help = "Taken for the original's sake: everything runs on the processor",
     .ignored = true}};

constexpr std::string_view kGraftDtypes[] = {"float32", "bfloat16", "float16"};

constexpr OptionInfo kGraftOptions[] = {
    {.name = "from",
     .kind = OptionKind::kPath,
     .help = "Model that tensors are taken from: a file, a folder or an index",
     .required = true},
    {.name = "missing",
     .kind = OptionKind::kFlag,
     .help = "Take every weight that the model lacks (a head that config.json ties is not missing)"},
    {.name = "include",
     .kind = OptionKind::kGlob,
     .help = "Take the tensors whose name, as the model's layout has it, matches",
     .repeatable = true},
    {.name = "exclude",
     .kind = OptionKind::kGlob,
     .help = "Leave out tensors whose name matches",
     .repeatable = true},
    {.name = "replace",
     .kind = OptionKind::kFlag,
     .help = "Take what --include names in place of weights that the model has"},
    {.name = "dtype",
     .kind = OptionKind::kChoice,
     .choices = kGraftDtypes,
     .help = "Cast what is taken, and dequantise it where it is quantised; without it bytes are kept"},
    {.name = "model-type", .help = "Type of both models, instead of what their config.json says"},
    {.name = "allow-unmapped",
     .kind = OptionKind::kFlag,
     .help = "Leave names as they are that the model's type does not know"}};

constexpr OptionInfo kReshardOptions[] = {
    {.name = "max-shard-size",
     .kind = OptionKind::kSize,
     .fallback = "20GiB",
     .unit = "bytes",
     .help = "Start a new shard before this many bytes of tensors"},
    {.name = "single", .kind = OptionKind::kFlag, .help = "Write one file instead of a folder of shards"},
    {.name = "align",
     .kind = OptionKind::kFlag,
     .help = "Order the tensors of a file by falling element size, so that all lie aligned"}};

std::string no_obstacle(const Checkpoint& checkpoint) {
  return checkpoint.order.empty() ? "It holds no tensors." : "";
}

constexpr OperationInfo kOperations[] = {
    {.id = "dequant-fp8",
     .title = "Dequantise FP8",
     .summary = "Turns FP8 weights with their scales into plain floats",
     .activator = "--dequant-fp8",
     .bare = "dtype",
     .options = kDequantFp8Options,
     .layouts = "FP8 weights with block, row, column or tensor scales",
     .writes = "plain floats; the scales go, config.json loses its quantisation section",
     .obstacle = transform::dequant_fp8_obstacle,
     .make = transform::make_dequant_fp8},
    {.id = "merge-lora",
     .title = "Merge an adapter",
     .summary = "Merges an adapter of any family into the weights",
     .activator = "--merge-lora",
     .bare = "adapter",
     .options = kMergeOptions,
     .layouts = "plain float weights, or FP8 dequantised before",
     .writes = "the merged weights in the base's dtypes",
     .obstacle = transform::merge_obstacle,
     .make = transform::make_merge},
    {.id = "dequant",
     .title = "Dequantise",
     .summary = "Turns quantised weights of any layout that is read into plain floats",
     .activator = "--dequant",
     .bare = "dtype",
     .options = kDequantOptions,
     .layouts = "quantised weights of a layout that is read",
     .writes = "plain floats; scales and the like go, config.json loses its quantisation section",
     .obstacle = transform::dequant_obstacle,
     .make = transform::make_dequant},
    {.id = "quantize",
     .title = "Quantise",
     .summary = "Rounds float matrices to a quantised layout, without calibration data",
     .activator = "--quantize",
     .bare = "to",
     .options = kQuantizeOptions,
     .layouts = "float matrices, or quantised weights of a layout that is read",
     .writes = "codes and scales of the chosen layout",
     .obstacle = transform::quantize_obstacle,
     .make = transform::make_quantize},
    {.id = "repack",
     .title = "Repack",
     .summary = "Puts quantised weights into another container, their codes untouched",
     .activator = "--repack",
     .bare = "to",
     .options = kRepackOptions,
     .layouts = "GPTQ, AWQ, ModelOpt NVFP4, FP8 with block scales, colibri FP8, or such compressed-tensors",
     .writes = "the same codes and scales in the chosen layout",
     .obstacle = transform::repack_obstacle,
     .make = transform::make_repack},
    {.id = "graft",
     .title = "Take from another model",
     .summary = "Takes tensors that a model has lost from another checkpoint of it",
     .activator = "--graft",
     .bare = "from",
     .options = kGraftOptions,
     .layouts = "",
     .writes = "the model's tensors, then those taken, in its names and its form of experts",
     .other = "from",
     .obstacle = no_obstacle,
     .make = transform::make_graft},
    {.id = "convert",
     .title = "Convert names and experts",
     .summary = "Moves names between transformers 4 and 5, fuses or splits experts, takes the text model out",
     .activator = "--convert",
     .bare = "to",
     .options = kConvertOptions,
     .layouts = "a model type of the table; experts that are quantised are moved where that is exact",
     .writes = "the same elements under other names and in other tensors; config.json follows",
     .obstacle = transform::convert_obstacle,
     .make = transform::make_convert},
    {.id = "filter",
     .title = "Filter",
     .summary = "Keeps the tensors whose names match",
     .activator = "--key-filter",
     .bare = "include",
     .options = kFilterOptions,
     .layouts = "",
     .writes = "the kept tensors, unchanged",
     .obstacle = no_obstacle,
     .make = transform::make_filter},
    {.id = "rename",
     .title = "Rename",
     .summary = "Renames tensors by regular expressions",
     .activator = "--key-rename",
     .bare = "rule",
     .options = kRenameOptions,
     .layouts = "",
     .writes = "the same tensors under new names",
     .obstacle = no_obstacle,
     .make = transform::make_rename},
    {.id = "cast",
     .title = "Cast",
     .summary = "Casts every tensor to one dtype",
     .activator = "--dtype-cast",
     .bare = "dtype",
     .options = kCastOptions,
     .layouts = "",
     .writes = "tensors of the chosen dtype; config.json's dtype follows",
     .obstacle = no_obstacle,
     .make = transform::make_cast},
    {.id = "reshard",
     .title = "Reshard",
     .summary = "Packs the tensors into shards of another size, or one file",
     .activator = "--reshard",
     .bare = "max-shard-size",
     .options = kReshardOptions,
     .layouts = "",
     .writes = "the same tensors in other files, with a new index",
     .obstacle = no_obstacle,
     .make = nullptr},
};

}  // namespace

std::span<const OperationInfo> all_operations() { return kOperations; }

}  // namespace tftf
