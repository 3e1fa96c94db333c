// Merging commands as people start them: where adapters are found, what is refused, nothing left behind.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

namespace fs = std::filesystem;

const std::string kMergeInputs = TFTF_TEST_DATA "/golden/tftf/inputs";

ProgramRun merge(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  return test::run_program(arguments, kMergeInputs);
}

bool says(const ProgramRun& run, const std::string& part) { return run.err.find(part) != std::string::npos; }

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

TEST_CASE("a merge tells which modules met a weight") {
  ScratchFolder scratch;
  const std::string out = (scratch.path() / "out").string();
  const ProgramRun run =
      merge({"merge-lora", "-b", "base_f32", "-a", "ad_basic", "-o", out, "--json", "--no-progress"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const OrderedJson account = OrderedJson::parse(run.out);
  CHECK(account["merges"][0]["merged"] == 4);
  CHECK(account["merges"][0]["modules"] == 4);
  CHECK(account["tensors"]["changed"] == 4);
}

TEST_CASE("mistakes of the command line are exit 2, refusals exit 1, and neither leaves anything") {
  ScratchFolder scratch;
  const std::string out = (scratch.path() / "out").string();
  const auto status = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", out, "--no-progress"});
    const ProgramRun run = merge(std::move(arguments));
    CHECK_FALSE(fs::exists(out));
    return run.status;
  };
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "not-there"}) == 2);
  CHECK(status({"merge-lora", "-b", "base_f32"}) == 2);
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "ad_basic", "--adapter-config", "nope.json"}) == 2);
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "ad_basic", "--scale", "much"}) == 2);
  CHECK(status({"merge-fsdp-lora", "-b", "base_f32"}) == 2);
  CHECK(status({"merge-fsdp-lora", "-b", "base_f32", "-s", "fsdp2/rank_00.safetensors", "-s",
                "./fsdp2/../fsdp2/rank_00.safetensors"}) == 2);
  CHECK(status({"merge-dcp-lora", "-b", "base_f32", "-c", "not-there"}) == 2);
  CHECK(status({"dequant-fp8", "-i", "fp8_lora", "--lora-scale", "2"}) == 2);
  CHECK(status({"run", "-i", "base_f32", "--merge-lora"}) == 2);
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "ad_wrongmodel"}) == 1);
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "base_f32"}) == 1);
  CHECK(status({"merge-lora", "-b", "base_f32", "-a", "ad_basic", "--dry-run"}) == 0);
}

TEST_CASE("a folder without an adapter names what it has, a base with other names the rename that helps") {
  const ProgramRun folder =
      merge({"merge-lora", "-b", "base_f32", "-a", "base_f32", "-o", "/dev/null", "--dry-run"});
  CHECK(says(folder, "model.safetensors"));
  ScratchFolder scratch;
  const fs::path adapter = scratch.path() / "adapter";
  fs::copy(kMergeInputs + "/ad_noprefix", adapter);
  const std::string config = (scratch.path() / "adapter/adapter_config.json").string();
  const ProgramRun rename =
      merge({"merge-lora", "-b", "base_gpt", "-a", adapter.string(), "-o", "/dev/null", "--dry-run"});
  CHECK(rename.status == 1);
  CHECK(says(rename, "have no weight in the base"));
}

TEST_CASE("the final adapter of a training folder is preferred to its checkpoints, and that is said") {
  ScratchFolder scratch;
  const fs::path training = scratch.path() / "training";
  fs::copy(kMergeInputs + "/train_lora", training, fs::copy_options::recursive);
  const std::string out = (scratch.path() / "out").string();
  const ProgramRun last =
      merge({"merge-lora", "-b", "base_f32", "-a", training.string(), "-o", out + "1", "--no-progress"});
  INFO(last.err);
  REQUIRE(last.status == 0);
  CHECK(says(last, "checkpoint-100"));
  fs::copy(training / "checkpoint-5/adapter_model.safetensors", training / "adapter_model.safetensors");
  const ProgramRun final =
      merge({"merge-lora", "-b", "base_f32", "-a", training.string(), "-o", out + "2", "--no-progress"});
  INFO(final.err);
  REQUIRE(final.status == 0);
  CHECK(says(final, "final adapter"));
  const ProgramRun five = merge(
      {"merge-lora", "-b", "base_f32", "-a", (training / "checkpoint-5/adapter_model.safetensors").string(),
       "--adapter-config", (training / "adapter_config.json").string(), "-o", out + "3", "--no-progress"});
  REQUIRE(five.status == 0);
  const std::string name = "/model-00001-of-00001.safetensors";
  CHECK(content(out + "2" + name) == content(out + "3" + name));
  CHECK(content(out + "1" + name) != content(out + "3" + name));
}

TEST_CASE("a result never replaces the adapter that it is made with") {
  ScratchFolder scratch;
  const fs::path adapter = scratch.path() / "adapter";
  fs::copy(kMergeInputs + "/ad_basic", adapter);
  const std::string file = (adapter / "adapter_model.safetensors").string();
  const std::string before = content(file);
  const ProgramRun run = merge(
      {"merge-lora", "-b", "base_f32", "-a", adapter.string(), "-o", file, "--overwrite", "--no-progress"});
  CHECK(run.status == 1);
  CHECK(content(file) == before);
}

}  // namespace tftf
