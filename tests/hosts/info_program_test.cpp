// `tftf info` as people start it: forms of MODEL, exit statuses, what goes to which stream.
#include <algorithm>
#include <catch2/catch.hpp>

#include "run_program.h"
#include "scratch_folder.h"
#include "test_files.h"
#include "tftf/base/json_text.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kCases = TFTF_TEST_DATA "/golden/safetensors/cases";

ProgramRun info(std::vector<std::string> arguments, const std::string& folder = kCases) {
  arguments.insert(arguments.begin(), {TFTF_BIN "/tftf", "info"});
  ProgramRun run = test::run_program(arguments, folder);
  INFO(run.err);
  REQUIRE(run.status >= 0);
  REQUIRE(run.status <= 2);
  return run;
}

OrderedJson info_json(const std::string& model, const std::string& folder = kCases) {
  return OrderedJson::parse(info({"--json", model}, folder).out);
}

}  // namespace

TEST_CASE("info takes a file, a folder and an index") {
  for (const char* model : {"cf-ok-llama", "cf-ok-llama/model.safetensors"}) {
    const ProgramRun run = info({model});
    CHECK(run.status == 0);
    CHECK(run.err.empty());
    CHECK(run.out.find("Kind     : checkpoint, llama\n") != std::string::npos);
    CHECK(run.out.find("model.layers.1.mlp.up_proj.weight") != std::string::npos);
  }
  for (const char* model : {"cf-ok-sharded", "cf-ok-sharded/model.safetensors.index.json"}) {
    const OrderedJson json = info_json(model);
    CHECK(json["files"].size() == 3);
    CHECK(json["input"] == model);
    CHECK(json["index"]["shards"] == 3);
  }
}

TEST_CASE("info folds, filters, sums up and shows offsets") {
  CHECK(info({"--fold", "cf-ok-llama"}).out.find("model.layers.#.mlp.up_proj.weight") != std::string::npos);
  CHECK(info({"--dtype-summary", "cf-ok-llama"}).out.find("Dtype summary:") != std::string::npos);
  CHECK(info({"--offsets", "cf-ok-llama"}).out.find("Begin") != std::string::npos);
  const ProgramRun none = info({"--filter", "no such name", "cf-ok-llama"});
  CHECK(none.status == 0);
  CHECK(none.err.find("warning") != std::string::npos);
}

TEST_CASE("info says why it fails") {
  ScratchFolder scratch;
  CHECK(info({"not-there"}).status == 2);
  CHECK(info({}).status == 2);
  CHECK(info({"--fold"}).status == 2);
  const ProgramRun broken = info({"--json", "st-truncated-half/model.safetensors"});
  CHECK(broken.status == 1);
  CHECK(broken.err.find("truncated") != std::string::npos);
  CHECK(OrderedJson::parse(broken.out)["kind"] == "broken");
  scratch.write("readme.txt", "nothing here");
  const ProgramRun empty = info({"--json", scratch.path().string()});
  CHECK(empty.status == 1);
  CHECK(OrderedJson::parse(empty.out)["error"]["code"] == "refused-input");
  // A pointer and a configuration are answers.
  CHECK(info({"st-lfs-pointer/model.safetensors"}).status == 0);
  scratch.write("config.json", R"({"model_type":"llama"})");
  CHECK(info_json(scratch.path().string())["kind"] == "config");
}

TEST_CASE("info reads small values from the file, and only those") {
  ScratchFolder scratch;
  const std::string header =
      R"({"lora_unet_a.alpha":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("lora_unet_a.lora_down.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
      R"("lora_unet_a.lora_up.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[12,20]}})";
  std::string file = test::safetensors_file(header, 20);
  const float alpha = 0.5;
  file.replace(file.size() - 20, 4, reinterpret_cast<const char*>(&alpha), 4);
  scratch.write("lora.safetensors", file);
  const OrderedJson json = info_json("lora.safetensors", scratch.path().string());
  CHECK(json["adapter"]["alphas"] == OrderedJson({{"0.5", 1}}));
  CHECK(json["adapter"]["scale"] == "alpha");
}

}  // namespace tftf
