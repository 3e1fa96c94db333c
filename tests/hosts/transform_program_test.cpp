// The converting commands of `tftf` as people start them: exit statuses, refusals, accounts, nothing left behind.
#include <catch2/catch.hpp>
#include <filesystem>

#include "run_program.h"
#include "scratch_folder.h"
#include "test_files.h"
#include "tftf/base/json_text.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kInputs = TFTF_TEST_DATA "/golden/tftf/inputs";

ProgramRun tftf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  return test::run_program(arguments, kInputs);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a wrong command line is exit 2 and says what is wrong, in the order it was typed") {
  const ProgramRun unknown = tftf({"dequantise", "-i", "mixed", "-o", "out"});
  CHECK(unknown.status == 2);
  CHECK(has(unknown.err, "\"dequantise\""));
  const ProgramRun extra = tftf({"passthrough", "-i", "mixed", "-o", "out", "one", "two"});
  CHECK(extra.status == 2);
  CHECK(has(extra.err, "\"one\""));
  CHECK(tftf({"passthrough", "-i", "mixed"}).status == 2);
  CHECK(tftf({"passthrough", "-i", "mixed", "-o", "out", "--dtype", "float12"}).status == 2);
  CHECK(tftf({"passthrough", "-i", "mixed", "-o", "out", "--simd", "abacus"}).status == 2);
  CHECK(tftf({"dequant-fp8", "-i", "fp8_b128", "-o", "out", "--block-size", "0"}).status == 2);
  CHECK(tftf({"passthrough", "-i", "not-there", "-o", "out"}).status == 2);
  const ProgramRun json = tftf({"passthrough", "-i", "not-there", "-o", "out", "--json"});
  CHECK(OrderedJson::parse(json.out)["error"]["code"] == "usage-path");
}

TEST_CASE("no arguments and --help are help, --version is the version") {
  for (const auto& arguments : {std::vector<std::string>{}, {"--help"}, {"passthrough", "--help"}}) {
    const ProgramRun help = tftf(arguments);
    CHECK(help.status == 0);
    CHECK(has(help.out, "Usage"));
  }
  CHECK(tftf({"--version"}).out == "tftf, version 1.0.0\n");
}

TEST_CASE("a conversion writes what its account says, and a second one into the same folder is refused") {
  ScratchFolder scratch;
  const std::string out = (scratch.path() / "out").string();
  const ProgramRun done = tftf({"dequant-fp8", "-i", "fp8_b128", "-o", out, "--json", "--no-progress"});
  INFO(done.err);
  REQUIRE(done.status == 0);
  const OrderedJson account = OrderedJson::parse(done.out);
  CHECK(account["tensors"]["changed"] == 2);
  CHECK(account["dry_run"] == false);
  for (const auto& file : account["files"])
    CHECK(std::filesystem::file_size(std::filesystem::path(out) / file["name"].get<std::string>()) ==
          file["bytes"]);
  CHECK(tftf({"lint", out}).status == 0);
  const ProgramRun again = tftf({"passthrough", "-i", "mixed", "-o", out});
  CHECK(again.status == 1);
  CHECK(has(again.err, "--overwrite"));
}

TEST_CASE("a dry run and a refusal leave nothing behind") {
  ScratchFolder scratch;
  const std::string out = (scratch.path() / "out").string();
  CHECK(tftf({"dequant-fp8", "-i", "fp8_b128", "-o", out, "--dry-run"}).status == 0);
  CHECK(tftf({"dequant-fp8", "-i", "fp8_badshape.safetensors", "-o", out}).status == 1);
  CHECK(tftf({"passthrough", "-i", "mixed", "-o", "mixed/inside"}).status == 1);
  CHECK(tftf({"dequant-fp8", "-i", "fp8_b128", "-o", out, "--max-memory", "1KB"}).status == 1);
  CHECK(std::filesystem::is_empty(scratch.path()));
  CHECK_FALSE(std::filesystem::exists(kInputs + "/mixed/inside"));
}

TEST_CASE("threads, tile sizes and instruction sets change no byte") {
  ScratchFolder scratch;
  std::string first;
  int run = 0;
  for (const char* threads : {"1", "2", "8"})
    for (const char* tile : {"1KiB", "64KiB", "4MiB"})
      for (const char* simd : {"scalar", "avx2"}) {
        const std::string out = (scratch.path() / ("out" + std::to_string(run++) + ".safetensors")).string();
        const ProgramRun done =
            tftf({"run", "-i", "fp8_b128", "-o", out, "--threads", threads, "--tile-size", tile, "--simd",
                  simd, "--no-progress", "--dequant-fp8", "fp16", "--dtype-cast", "float32"});
        // A machine without that instruction set says so; scalar is everywhere.
        if (done.status == 2 && std::string(simd) != "scalar") continue;
        INFO(done.err);
        REQUIRE(done.status == 0);
        const std::string bytes = scratch.read("out" + std::to_string(run - 1) + ".safetensors");
        if (first.empty()) first = bytes;
        CHECK(bytes == first);
      }
}

}  // namespace tftf
