// tftf-lint as people start it: baselines, indexes, links, and files that are none.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"

namespace fs = std::filesystem;

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kSoundFile = TFTF_TEST_DATA "/golden/safetensors/cases/ok-one-f32/model.safetensors";

ProgramRun run_lint(std::vector<std::string> arguments, const std::string& folder = {}) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf-lint");
  ProgramRun run = test::run_program(arguments, folder);
  INFO(run.err);
  REQUIRE(run.status >= 0);
  REQUIRE(run.status <= 2);
  return run;
}

// A sound file with two bytes too many: ST041.
std::string write_trailing(const ScratchFolder& scratch, const std::string& name) {
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  return scratch.write(name, text + header + "abcd" + "xx");
}

}  // namespace

TEST_CASE("an index is checked together with the shards that it names") {
  ScratchFolder scratch;
  const std::string index =
      scratch.write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":
      {"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  scratch.write("model-00001-of-00002.safetensors", "broken");
  scratch.write("model-00002-of-00002.safetensors", "");
  scratch.write("other.safetensors", "not named");
  const ProgramRun run = run_lint({index});
  CHECK(run.status == 1);
  CHECK(run.out.find("ST002") != std::string::npos);
  CHECK(run.out.find("ST001") != std::string::npos);
  CHECK(run.out.find("other.safetensors") == std::string::npos);
  CHECK(run.out.find(", 2 files.") != std::string::npos);
  // Without its shards it is still an index that was checked.
  fs::remove(scratch / "model-00001-of-00002.safetensors");
  fs::remove(scratch / "model-00002-of-00002.safetensors");
  CHECK(run_lint({index}).out.find(", 1 index, 1 folder; no .safetensors file was found.") !=
        std::string::npos);
}

TEST_CASE("known findings do not count, new ones do, and what is gone is told") {
  ScratchFolder scratch;
  write_trailing(scratch, "m/model.safetensors");
  const std::string folder = scratch.path().string();
  CHECK(run_lint({"m"}, folder).status == 1);
  const ProgramRun written = run_lint({"--write-baseline", "known.json", "m"}, folder);
  CHECK(written.status == 0);
  CHECK(written.out.empty());
  CHECK(run_lint({"--baseline", "known.json", "m"}, folder).status == 0);
  CHECK(run_lint({"--baseline", "known.json", "m/model.safetensors"}, folder).status == 0);
  const OrderedJson report =
      OrderedJson::parse(run_lint({"--json", "--baseline", "known.json", "m"}, folder).out);
  CHECK(report["issues"]["messages"].empty());
  CHECK(report["baseline"]["known"] == 2);
  CHECK(report["baseline"]["stale"].empty());
  write_trailing(scratch, "m/second.safetensors");
  CHECK(run_lint({"--baseline", "known.json", "m"}, folder).status == 1);
  fs::remove(scratch / "m/second.safetensors");
  scratch.write("m/model.safetensors", "");
  const ProgramRun mended = run_lint({"--baseline", "known.json", "m"}, folder);
  CHECK(mended.out.find("not found any more: ST041") != std::string::npos);
  CHECK(run_lint({"--baseline", "known.json", "--write-baseline", "other.json", "m"}, folder).status == 2);
  CHECK(run_lint({"--baseline", "none.json", "m"}, folder).status == 2);
  CHECK(run_lint({"--baseline", "m/model.safetensors", "m"}, folder).status == 2);
  CHECK(run_lint({"--write-baseline", "m/model.safetensors", "m"}, folder).status == 1);
}

TEST_CASE("files of the command line that are no files are refused, not waited for") {
  ScratchFolder scratch;
  const std::string fifo = scratch / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const char* option : {"--config", "--baseline", "--base"}) {
    const ProgramRun run = run_lint({option, fifo, kSoundFile});
    INFO(option);
    CHECK(run.status != 0);
    CHECK(run.err.find("fifo") != std::string::npos);
  }
  CHECK(run_lint({"--output", fifo, kSoundFile}).status != 0);
  CHECK(run_lint({fifo}).status == 1);
}

TEST_CASE("links that are not followed are named in the report") {
  ScratchFolder scratch;
  scratch.write("elsewhere/model.safetensors", "");
  scratch.write("m/config.json", R"({"model_type":"llama"})");
  fs::create_symlink("../elsewhere/model.safetensors", scratch / "m/model.safetensors");
  fs::create_symlink("nothing", scratch / "m/vocab.json");
  fs::create_symlink("config.json", scratch / "m/inside.json");
  const ProgramRun run = run_lint({"m"}, scratch.path().string());
  CHECK(run.out.find(
            "not followed: 2 links out of the folder or to nothing: m/model.safetensors, m/vocab.json") !=
        std::string::npos);
  const OrderedJson report = OrderedJson::parse(run_lint({"--json", "m"}, scratch.path().string()).out);
  CHECK(report["info"]["skippedLinks"] ==
        OrderedJson::parse(R"([{"file":"model.safetensors"},{"file":"vocab.json"}])"));
}

TEST_CASE("rule ids are taken in any case, and a rule can be turned off") {
  ScratchFolder scratch;
  const std::string file = write_trailing(scratch, "model.safetensors");
  CHECK(run_lint({"--ignore", "st041", file}).status == 0);
  CHECK(run_lint({"--severity", "sT041=off", file}).status == 0);
  CHECK(run_lint({"--only", "st041", file}).status == 1);
  CHECK(run_lint({"rules", "st041"}).out == run_lint({"rules", "ST041"}).out);
}

TEST_CASE("a shard of a wrong kind that exists in other letter case only is told as both") {
  ScratchFolder scratch;
  scratch.write("model.bin", "x");
  scratch.write("model.safetensors.index.json",
                R"({"metadata":{},"weight_map":{"a":"Model.bin","b":"model.bin","c":"none.bin"}})");
  const OrderedJson report = OrderedJson::parse(run_lint({"--json", "."}, scratch.path().string()).out);
  std::vector<std::string> found;
  for (const OrderedJson& issue : report["issues"]["messages"])
    if (issue["rule"] == "IX014" || issue["rule"] == "IX034")
      found.push_back(issue["rule"].get<std::string>() + " " + issue["subject"].get<std::string>());
  std::sort(found.begin(), found.end());
  CHECK(found ==
        std::vector<std::string>{"IX014 Model.bin", "IX014 model.bin", "IX014 none.bin", "IX034 Model.bin"});
}

}  // namespace tftf
