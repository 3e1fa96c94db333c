// `tftf adapter` as people start it: folders of adapters, exit statuses, what is written where and what is left behind.
#include <catch2/catch.hpp>
#include <filesystem>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kAdapters = TFTF_TEST_DATA "/golden/adapters/inputs/";

ProgramRun adapter_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TFTF_BIN "/tftf", "adapter"});
  ProgramRun run = test::run_program(arguments, kAdapters);
  INFO(run.err);
  REQUIRE(run.status >= 0);
  REQUIRE(run.status <= 2);
  return run;
}

bool output_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("adapter info tells one adapter, or each of a folder") {
  const ProgramRun one = adapter_command({"info", "kohya_dora.safetensors"});
  CHECK(one.status == 0);
  CHECK(output_has(one.out, "Family   : kohya\n"));
  CHECK(output_has(one.out, "dora (2)"));
  ScratchFolder scratch;
  for (const char* name : {"kohya_dora.safetensors", "wan_fun.safetensors"})
    std::filesystem::copy(kAdapters + name, scratch / name);
  const ProgramRun folder = adapter_command({"info", "--json", scratch.path().string()});
  CHECK(folder.status == 0);
  const OrderedJson json = OrderedJson::parse(folder.out);
  REQUIRE(json["adapters"].size() == 2);
  CHECK(json["adapters"][0]["file"] == "kohya_dora.safetensors");
  CHECK(json["adapters"][1]["family"] == "wan-fun");
  std::filesystem::copy(kAdapters + "checkpoint_plain.safetensors", scratch / "model.safetensors");
  const ProgramRun mixed = adapter_command({"info", scratch.path().string()});
  CHECK(mixed.status == 1);
  CHECK(output_has(mixed.err, "is not an adapter"));
  CHECK(adapter_command({"info", "no-such-file"}).status == 2);
}

TEST_CASE("adapter convert writes a folder for each model of a pipeline, and they are told as such") {
  ScratchFolder scratch;
  const std::string out = scratch / "peft";
  const ProgramRun run =
      adapter_command({"convert", "-i", "kohya_sd_unet_te2.safetensors", "--to", "peft", "-o", out});
  CHECK(run.status == 0);
  CHECK(output_has(run.out, "24 mapped, 0 unmapped, 0 dropped"));
  for (const char* name : {"unet", "text_encoder"}) {
    CHECK(std::filesystem::exists(out + "/" + name + "/adapter_model.safetensors"));
    CHECK(std::filesystem::exists(out + "/" + name + "/adapter_config.json"));
  }
  CHECK(output_has(adapter_command({"info", out}).out, "6: lora (6)"));
  const ProgramRun again =
      adapter_command({"convert", "-i", "kohya_sd_unet_te2.safetensors", "--to", "peft", "-o", out});
  CHECK(again.status == 1);
  CHECK(output_has(again.err, "not empty"));
  CHECK(adapter_command(
            {"convert", "-i", "kohya_sd_unet_te2.safetensors", "--to", "peft", "-o", out, "--overwrite"})
            .status == 0);
}

TEST_CASE("a refused conversion and a dry run leave nothing behind") {
  ScratchFolder scratch;
  const std::string out = scratch / "out.safetensors";
  const ProgramRun refused = adapter_command(
      {"convert", "-i", "kohya_full_diff.safetensors", "--to", "peft", "-o", scratch / "peft"});
  CHECK(refused.status == 1);
  CHECK(output_has(refused.err, "form"));
  const ProgramRun dry = adapter_command(
      {"convert", "-i", "flux_kohya.safetensors", "--to", "diffusers", "--dry-run", "-o", out});
  CHECK(dry.status == 0);
  CHECK(output_has(dry.out, "adapter convert to=diffusers"));
  CHECK(std::filesystem::is_empty(scratch.path()));
  CHECK(adapter_command({"convert", "-i", "flux_kohya.safetensors", "--to", "gguf", "-o", out}).status == 2);
  CHECK(adapter_command({"convert", "-i", "flux_kohya.safetensors", "--to", "peft", "--from", "x", "-o", out})
            .status == 2);
  CHECK(adapter_command({"convert", "-i", "peft_no_config", "--to", "kohya", "--scale", "-1", "-o", out})
            .status == 2);
}

TEST_CASE("merge-lora takes an adapter of kohya's names") {
  ScratchFolder scratch;
  const ProgramRun run =
      test::run_program({TFTF_BIN "/tftf", "merge-lora", "-b", "base_names.safetensors", "-a",
                         "kohya_unknown_module.safetensors", "-o", scratch / "merged.safetensors", "--json"},
                        kAdapters);
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(OrderedJson::parse(run.out)["merges"][0]["merged"] == 1);
}

}  // namespace tftf
