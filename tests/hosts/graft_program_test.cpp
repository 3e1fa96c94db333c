// `tftf graft` as people start it: two models of several shards, whatever the threads and tiles; places that are refused.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "run_program.h"
#include "scratch_folder.h"
#include "transform_host.h"

namespace tftf {

using namespace test;

namespace {

namespace fs = std::filesystem;
using GraftWords = std::vector<std::string>;

void spill_graft(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

ProgramRun run_graft(GraftWords words, const fs::path& folder) {
  words.insert(words.begin(), {TFTF_BIN "/tftf", "graft"});
  return run_program(words, folder.string(), {});
}

TestTensor graft_row(const std::string& name, uint32_t seed) {
  return {name, DType::BF16, {50, 30}, random_bytes(3000, seed)};
}

// Both with their tensors in two shards without an index, under the same names.
void make_graft_models(const fs::path& folder) {
  for (const std::string name : {"model", "source"}) {
    fs::create_directory(folder / name);
    spill_graft(folder / name / "config.json", R"({"model_type": "llama"})");
    const uint32_t seed = name == "model" ? 1 : 100;
    spill_graft(
        folder / name / "model-00001-of-00002.safetensors",
        model_file({graft_row("a.weight", seed), graft_row("b.weight", seed + 1)}, {{"format", "pt"}}));
    spill_graft(folder / name / "model-00002-of-00002.safetensors",
                model_file(name == "model" ? std::vector<TestTensor>{graft_row("c.weight", seed + 2)}
                                           : std::vector<TestTensor>{graft_row("c.weight", seed + 2),
                                                                     graft_row("d.weight", seed + 3)},
                           {{"format", "pt"}}));
  }
  spill_graft(folder / "source" / "preprocessor_config.json", "{}");
}

std::map<std::string, std::string> graft_result(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (const TestTensor& tensor : tensors_of(bytes)) all[tensor.name] = tensor.bytes;
  }
  return all;
}

}  // namespace

TEST_CASE("graft reads two models in one pass") {
  const ScratchFolder scratch;
  make_graft_models(scratch.path());
  for (const GraftWords& how :
       {GraftWords{"--threads", "1"}, GraftWords{"--threads", "4", "--tile-size", "64"}}) {
    GraftWords words{"-i", "model", "--from", "source/", "--missing", "-o", "out", "--overwrite"};
    words.insert(words.end(), how.begin(), how.end());
    const ProgramRun run = run_graft(words, scratch.path());
    INFO(run.err);
    REQUIRE(run.status == 0);
    const auto made = graft_result(scratch.path() / "out");
    CHECK(made.size() == 4);
    CHECK(made.at("a.weight") == random_bytes(3000, 1));
    CHECK(made.at("d.weight") == random_bytes(3000, 103));
    CHECK(fs::exists(scratch.path() / "out" / "preprocessor_config.json"));
  }
  const ProgramRun cast = run_graft(
      {"-i", "model/model-00001-of-00002.safetensors", "--from", "source/model-00002-of-00002.safetensors",
       "--include", "d.*", "--dtype", "float32", "-o", "one.safetensors"},
      scratch.path());
  INFO(cast.err);
  REQUIRE(cast.status == 0);
  CHECK(fs::exists(scratch.path() / "one.safetensors"));
}

TEST_CASE("graft never writes into what it reads") {
  const ScratchFolder scratch;
  make_graft_models(scratch.path());
  for (const char* out : {"source", "source/inside", "model"}) {
    const ProgramRun run =
        run_graft({"-i", "model", "--from", "source", "--missing", "-o", out, "--overwrite"}, scratch.path());
    CHECK(run.status == 1);
    CHECK(run.err.find("input") != std::string::npos);
  }
  CHECK(run_graft({"-i", "model", "--from", "nowhere", "--missing", "-o", "out"}, scratch.path()).status ==
        2);
  CHECK(run_graft({"-i", "model", "--missing", "-o", "out"}, scratch.path()).status == 2);
  CHECK(run_graft({"-i", "model", "--from", "source", "-o", "out"}, scratch.path()).status == 2);
  CHECK_FALSE(fs::exists(scratch.path() / "out"));
}

}  // namespace tftf
