// What makes the programs pleasant at a prompt: pipes that close, widths, locales, progress, reports that are not lost.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "progress.h"
#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"
#include "tftf/base/utf8.h"
#include "tftf/command/command.h"
#include "transform_host.h"

namespace tftf {

using namespace test;

namespace {

using Arguments = std::vector<std::string>;

const std::string kQwen = TFTF_TEST_DATA "/../docs/sample/qwen3-tiny-fp8";

ProgramRun tool(Arguments arguments, const std::string& folder = {}, const Arguments& environment = {}) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  return run_program(arguments, folder, environment);
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    longest = std::max<size_t>(longest, count_code_points(text.substr(at, end - at)));
    at = end + 1;
  }
  return longest;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A model of tensors whose long names differ at the end, at the beginning, and in the middle alone.
void make_long_names(const std::string& path, uint32_t first) {
  std::vector<TestTensor> tensors;
  const std::string middle(70, 'm');
  uint32_t seed = first;
  for (const char* name : {".q.weight", ".k.weight", ".v.weight"})
    tensors.push_back({"model.layers.10" + middle + name, DType::F32, {3, 5}, random_bytes(60, seed++)});
  for (const char* name : {"a.", "b."})
    tensors.push_back({name + middle + ".weight", DType::F32, {3, 5}, random_bytes(60, seed++)});
  for (const char* name : {"x", "y"})
    tensors.push_back({"é" + middle + name + middle, DType::F32, {3, 5}, random_bytes(60, seed++)});
  std::ofstream(path, std::ios::binary) << model_file(tensors, {});
}

}  // namespace

TEST_CASE("a reader that goes away is no failure of any command") {
  ScratchFolder scratch;
  const auto status = [&](const std::string& line) {
    const ProgramRun run =
        run_program({"/bin/bash", "-c", "set -o pipefail; export PATH=" TFTF_BIN ":$PATH; " + line},
                    scratch.path().string());
    INFO(line);
    CHECK(run.err.empty());
    return run.status;
  };
  for (const char* line : {"tftf info --offsets ", "tftf info --json ", "tftf stats ", "tftf stats --json ",
                           "tftf validate ", "tftf-lint --json ", "tftf-lint "})
    CHECK(status(line + kQwen + " | exec 0<&-") == 0);
  for (const char* line : {"tftf --help", "tftf run --help", "tftf formats", "tftf completion bash",
                           "tftf-lint rules", "tftf version"})
    CHECK(status(std::string(line) + " | true") == 0);
  CHECK(status("tftf passthrough -i " + kQwen + " -o out --json | true") == 0);
  CHECK(std::filesystem::exists(scratch.path() / "out/model.safetensors.index.json"));
  // What it would have said otherwise stays: a difference is one.
  CHECK(status("tftf-lint --fail-on info --quiet " + kQwen + " | true") == 1);
}

TEST_CASE("tables fit the width, and names that differ still do") {
  ScratchFolder scratch;
  make_long_names(scratch / "a.safetensors", 1);
  make_long_names(scratch / "b.safetensors", 50);
  for (const Arguments& words :
       {Arguments{"stats", "a.safetensors"}, Arguments{"stats", kQwen},
        Arguments{"stats", "--logical", kQwen}, Arguments{"diff", "a.safetensors", kQwen},
        Arguments{"diff", "--values", "a.safetensors", "b.safetensors"},
        Arguments{"diff", kQwen, "a.safetensors"}}) {
    for (const char* columns : {"", "64", "80", "100", "132", "250"}) {
      for (const char* locale : {"C", "C.UTF-8"}) {
        const ProgramRun run = tool(words, scratch.path().string(),
                                    {"COLUMNS=" + std::string(columns), "LC_ALL=" + std::string(locale)});
        INFO(words[0] << " " << words[1] << " " << columns << " " << locale);
        INFO(run.out);
        CHECK(run.status <= 1);
        CHECK(longest_line(run.out) <= (*columns == '\0' ? 80u : std::stoul(columns)));
        CHECK((std::string(locale) != "C" || is_ascii(run.out)));
        if (words[1] != "a.safetensors" || run.out.find("Key") == std::string::npos) continue;
        for (const char* name : {"q.weight", "k.weight", "v.weight"})
          CHECK(run.out.find(name) != std::string::npos);
      }
    }
  }
}

TEST_CASE("progress fits the terminal's width") {
  for (uint32_t columns = 20; columns < 200; ++columns) {
    for (const auto& [done, total] : {std::pair<uint64_t, uint64_t>{0, 0},
                                      {1, uint64_t{1} << 40},
                                      {uint64_t{700} << 30, uint64_t{701} << 30},
                                      {5, 5}}) {
      for (const char* verb : {"reading", "reading again", "writing"}) {
        const std::string text = cli::progress_text(verb, done, total, 12345, 0, columns);
        INFO(text);
        CHECK(text.size() < columns);
        CHECK(text.find(verb) != std::string::npos);
        CHECK(text.find(" %") != std::string::npos);
      }
    }
  }
  CHECK(cli::progress_text("reading", 1, 4, 2, 0, 120) ==
        "[######..................] reading 25 %, 1 byte of 4 bytes, 0 bytes/s, 6 s left");
}

TEST_CASE("a report that cannot be written to its file is printed") {
  ScratchFolder scratch;
  for (const char* format : {"text", "json", "sarif", "junit", "github"}) {
    const ProgramRun expected = tool({"lint", "--format", format, kQwen}, scratch.path().string());
    for (const char* target : {"/dev/full", "no/such/folder/report"}) {
      const ProgramRun run =
          tool({"lint", "--format", format, "--output", target, kQwen}, scratch.path().string());
      INFO(format << " " << target);
      CHECK(run.status == 1);
      CHECK(run.out == expected.out);
      CHECK(run.err.find("tftf: Cannot ") == 0);
      // Where the folder is missing, the folder is named.
      CHECK(run.err.find(std::string(target).substr(0, 9)) != std::string::npos);
    }
  }
}

TEST_CASE("a run that cannot succeed when repeated does not say how to repeat it") {
  ScratchFolder scratch;
  // The divisor of the second weight is only seen with its data.
  std::ofstream(scratch / "in.safetensors", std::ios::binary)
      << model_file({{"a.weight", DType::F8_E4M3, {64, 64}, random_bytes(4096, 1)},
                     {"a.weight_scale", DType::F32, {1}, f32_bytes({1})},
                     {"b.weight", DType::F8_E4M3, {64, 64}, random_bytes(4096, 2)},
                     {"b.weight_scale", DType::F32, {1}, f32_bytes({0})}},
                    {});
  const ProgramRun run = tool({"dequant-fp8", "-i", "in.safetensors", "-o", "out"}, scratch.path().string());
  INFO(run.err);
  CHECK(run.status == 1);
  CHECK(run.err.find("this continues") == std::string::npos);
}

TEST_CASE("--max-shard-size 0 is refused by every command that has it") {
  size_t seen = 0;
  for (const Command& command : all_commands()) {
    if (command.option("max-shard-size") == nullptr) continue;
    Arguments words;
    const std::string path(command.info->path);
    const size_t space = path.find(' ');
    words.push_back(path.substr(0, space));
    if (space != std::string::npos) words.push_back(path.substr(space + 1));
    for (const char* size : {"0", "0GB", "-1", "0.0KiB"}) {
      Arguments with = words;
      with.insert(with.end(), {"--max-shard-size", size, "-o", "out"});
      const ProgramRun run = tool(with);
      INFO(path << " " << size);
      CHECK(run.status == 2);
      CHECK(run.err.find("--max-shard-size is") != std::string::npos);
    }
    ++seen;
  }
  CHECK(seen > 9);
}

}  // namespace tftf
