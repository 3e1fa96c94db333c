#include "examples.h"

#include <CLI/CLI.hpp>
#include <string>

namespace tftf::cli {
namespace {

struct CommandExamples {
  const char* command;  // "colibri resolve": a tool of a group
  const char* lines;
  const char* status;
};

constexpr const char* kConversionStatus =
    "Exit status: 0 done (the account says what), 1 refused or failed, 2 usage error or a path that does not "
    "exist,\n"
    "130 interrupted (the same command continues).";

constexpr CommandExamples kCommandExamples[] = {
    {"passthrough",
     "  tftf passthrough -i model -o copy --max-shard-size 5GB     packed into other shards\n"
     "  tftf passthrough -i model -o one.safetensors               one file\n"
     "  tftf passthrough -i model -o half --dtype float16          cast\n"
     "  tftf passthrough -i model -o text --exclude 'vision.*' --dry-run",
     kConversionStatus},
    {"dequant-fp8",
     "  tftf dequant-fp8 -i DeepSeek-V3 -o DeepSeek-V3-bf16\n"
     "  tftf dequant-fp8 -i model -o out --dry-run                 the plan and the account, nothing "
     "written\n"
     "  tftf dequant-fp8 -i model -o merged --merge-lora adapter   an adapter merged in the same pass",
     kConversionStatus},
    {"dequant",
     "  tftf dequant -i model-NVFP4 -o model-bf16\n"
     "  tftf dequant -i model -o model-f32 --dtype float32\n"
     "  tftf dequant -i model -o part --include '*.experts.*' --dry-run",
     kConversionStatus},
    {"quantize",
     "  tftf quantize -i model -o model-fp8 --to fp8-block --exclude lm_head.weight\n"
     "  tftf quantize -i model -o model-int4 --to colibri-int4-grouped --group-size 128",
     kConversionStatus},
    {"merge-lora",
     "  tftf merge-lora -b model -a adapter -o merged\n"
     "  tftf merge-lora -b model -a runs/checkpoint-500 -o merged --scale 0.5 --dry-run",
     kConversionStatus},
    {"merge-fsdp-lora",
     "  tftf merge-fsdp-lora -b model --shard-dir run/adapter -o merged\n"
     "  tftf merge-fsdp-lora -b model -s rank0.safetensors -s rank1.safetensors -o merged",
     kConversionStatus},
    {"merge-dcp-lora", "  tftf merge-dcp-lora -b model -c runs/step-1000 -o merged", kConversionStatus},
    {"run",
     "  tftf run -i model -o out --dequant-fp8 bf16 --exclude '*.bias'\n"
     "  tftf run -i model -o out --key-rename '^model\\.' '' --dtype-cast float16",
     kConversionStatus},
    {"validate",
     "  tftf validate model\n"
     "  tftf validate model --pipe dtype:float16 --json            would a cast overflow?",
     "Exit status: 0 (also with values that are not finite: they are counted), 1 refused or failed, 2 usage "
     "error."},
    {"repack",
     "  tftf repack -i GLM-FP8 -o glm-colibri --to colibri-fp8     FP8 blocks as colibri stores them\n"
     "  tftf repack -i glm-colibri -o GLM-FP8 --to fp8-block       and back, bit by bit\n"
     "  tftf repack -i Qwen-GPTQ -o Qwen-AWQ --to awq              the same codes for readers of AWQ",
     kConversionStatus},
    {"colibri repack-fp8",
     "  tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-colibri             the main model\n"
     "  tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-colibri --mtp       the MTP layer, beside it\n"
     "  tftf colibri repack-fp8 --indir GLM-FP8 --outdir glm-colibri --dry-run",
     kConversionStatus},
    {"colibri convert",
     "  tftf colibri convert --indir GLM-5.2-FP8 --outdir GLM-5.2-int4\n"
     "  tftf colibri convert --indir GLM-5.2-FP8 --outdir GLM-5.2-int4 --mtp\n"
     "  tftf colibri convert --indir model --outdir out --xbits e8 --o-bits 8 --dry-run",
     kConversionStatus},
    {"colibri fmt4-to-fmt2", "  tftf colibri fmt4-to-fmt2 --indir model-int4 --outdir model-int4-row",
     kConversionStatus},
    {"colibri quantize",
     "  tftf colibri quantize --format int4-grouped --group-size 128 -i w.safetensors -o q.safetensors\n"
     "  tftf colibri quantize --format int8-row --bits 6 -i w.safetensors -o q.safetensors",
     kConversionStatus},
    {"colibri dequant",
     "  tftf colibri dequant --format int8-row --rows 2048 --cols 6144 -i q.safetensors -o w.safetensors",
     kConversionStatus},
    {"colibri resolve",
     "  tftf colibri resolve --rows 2048 --cols 6144 --weight-bytes 12582912 --scale-bytes 3072\n"
     "  tftf colibri resolve --batch pairs.json",
     "Exit status: 0 read (with --batch always), 1 refused, 2 usage error."},
    {"colibri classify", "  tftf colibri classify --batch names.json", "Exit status: 0, 2 usage error."},
    {"colibri rans-repack",
     "  tftf colibri rans-repack --indir glm-int4 --outdir glm-rans              routed experts, range "
     "coded\n"
     "  tftf colibri rans-repack --indir glm-int4 --outdir glm-rans --layers 3,4\n"
     "  tftf colibri rans-repack --manifest-only glm-rans                        digests of a container that "
     "has none",
     kConversionStatus},
    {"completion",
     "  source <(tftf completion bash)                             for this shell; in ~/.bashrc for all\n"
     "  tftf completion zsh > ~/.zfunc/_tftf\n"
     "  tftf completion fish > ~/.config/fish/completions/tftf.fish",
     "Exit status: 0, 2 usage error."},
};

constexpr const char* kProgramExamples =
    "Examples:\n"
    "  tftf info model/                                   what is it?\n"
    "  tftf lint --strict model/                          is it sound?\n"
    "  tftf dequant-fp8 -i model -o model-bf16            FP8 to BF16\n"
    "  tftf merge-lora -b model -a adapter -o merged\n"
    "  tftf diff --values model model-bf16                is it still the same?\n"
    "\n"
    "tftf COMMAND --help tells more.";

}  // namespace

void add_examples(CLI::App& app) {
  app.footer(kProgramExamples);
  for (const CommandExamples& of : kCommandExamples) {
    CLI::App* command = &app;
    for (std::string path = of.command; !path.empty();) {
      const size_t space = path.find(' ');
      command = command->get_subcommand(path.substr(0, space));
      path = space == std::string::npos ? "" : path.substr(space + 1);
    }
    const std::string before = command->get_footer();
    command->footer((before.empty() ? "" : before + "\n\n") + "Examples:\n" + of.lines + "\n\n" + of.status);
  }
}

}  // namespace tftf::cli
