// What lies beside the weights and is no plain file, or is not what it was; and where a result must not go.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"
#include "tftf_native/executor.h"
#include "tftf_native/path_kind.h"

namespace tftf {

namespace fs = std::filesystem;
using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kSideInputs = TFTF_TEST_DATA "/golden/tftf/inputs";

using SideWords = std::vector<std::string>;

ProgramRun side_run(SideWords arguments) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  ProgramRun run = test::run_program(arguments);
  INFO(run.err);
  REQUIRE(run.status >= 0);
  REQUIRE(run.status <= 2);
  return run;
}

bool mentions(const ProgramRun& run, const std::string& text) {
  return run.err.find(text) != std::string::npos;
}

// Copies whose files may be written to.
void copy_input(const std::string& name, const std::string& to) {
  fs::copy(kSideInputs + "/" + name, to);
  for (const auto& entry : fs::directory_iterator(to))
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
}

SideWords side_names(const std::string& folder) {
  SideWords names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("the kind of a path is told for everything that a path can name") {
  ScratchFolder scratch;
  scratch.write("file", "x");
  fs::create_directory(scratch / "folder");
  fs::create_symlink("file", scratch / "link");
  fs::create_symlink("nothing", scratch / "dangling");
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK(*path_kind(scratch / "file") == PathKind::kFile);
  CHECK(*path_kind(scratch / "link") == PathKind::kFile);
  CHECK(*path_kind(scratch / "folder") == PathKind::kFolder);
  CHECK(*path_kind(scratch / "fifo") == PathKind::kOther);
  CHECK(*path_kind(scratch / "dangling") == PathKind::kDangling);
  CHECK(*path_kind(scratch / "nothing") == PathKind::kNothing);
  CHECK(*path_kind(scratch / "file/below") == PathKind::kNothing);
  fs::create_symlink("loop", scratch / "loop");
  const auto loop = path_kind(scratch / "loop");
  REQUIRE_FALSE(loop.ok());
  CHECK(loop.error().code == ErrorCode::kIoRead);
  CHECK(loop.error().file == scratch / "loop");
}

TEST_CASE("a configuration that is a folder, a FIFO, a link to nothing or in a loop is refused") {
  const auto spoil = [](const std::string& path, int kind) {
    fs::remove(path);
    if (kind == 0) fs::create_directory(path);
    if (kind == 1) REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    if (kind == 2) fs::create_symlink("nothing", path);
    if (kind == 3) fs::create_symlink(fs::path(path).filename(), path);
  };
  for (int kind = 0; kind < 4; ++kind) {
    INFO(kind);
    ScratchFolder scratch;
    copy_input("ad_basic", scratch / "adapter");
    copy_input("base_f32", scratch / "base");
    spoil(scratch / "adapter/adapter_config.json", kind);
    const ProgramRun run =
        side_run({"merge-lora", "-b", scratch / "base", "-a", scratch / "adapter", "-o", scratch / "out"});
    CHECK(run.status == 1);
    CHECK(mentions(run, "adapter_config.json"));
    spoil(scratch / "base/config.json", kind);
    const ProgramRun model = side_run({"passthrough", "-i", scratch / "base", "-o", scratch / "out"});
    CHECK(model.status == 1);
    CHECK(mentions(model, "config.json"));
    CHECK_FALSE(fs::exists(scratch / "out"));
  }
}

TEST_CASE("what is no regular file beside the weights is left out and named") {
  ScratchFolder scratch;
  copy_input("base_f32", scratch / "in");
  scratch.write("in/tokenizer.json", "{}");
  fs::create_symlink("nothing", scratch / "in/vocab.txt");
  REQUIRE(::mkfifo((scratch / "in/merges.txt").c_str(), 0600) == 0);
  fs::create_directory(scratch / "in/1_Pooling");
  for (const bool dry : {true, false}) {
    SideWords words{"passthrough", "-i", scratch / "in", "-o", scratch / "out"};
    if (dry) words.push_back("--dry-run");
    const ProgramRun run = side_run(words);
    CHECK(run.status == 0);
    CHECK(mentions(run, "\"vocab.txt\" is not taken along: it is a link to nothing"));
    CHECK(mentions(run, "\"merges.txt\" is not taken along: it is not a regular file"));
    CHECK_FALSE(mentions(run, "tokenizer.json"));
  }
  CHECK(side_names(scratch / "out") == SideWords{"config.json", "model-00001-of-00001.safetensors",
                                                 "model.safetensors.index.json", "tokenizer.json"});
}

TEST_CASE("a result does not go where an adapter lies") {
  ScratchFolder scratch;
  copy_input("ad_basic", scratch / "adapter");
  copy_input("base_f32", scratch / "base");
  fs::create_directory_symlink("adapter", scratch / "other");
  const SideWords before = side_names(scratch / "adapter");
  for (const std::string& out : {scratch / "adapter", scratch / "other", scratch / "adapter/merged",
                                 scratch / "adapter/merged.safetensors"}) {
    for (const bool dry : {true, false}) {
      INFO(out);
      SideWords words{"merge-lora", "-b", scratch / "base", "-a", scratch / "adapter",
                      "-o",         out,  "--overwrite"};
      if (dry) words.push_back("--dry-run");
      const ProgramRun run = side_run(words);
      CHECK(run.status == 1);
      CHECK(mentions(run, "input"));
      CHECK(side_names(scratch / "adapter") == before);
    }
  }
  // A lone file: its folder may take a file, and no model.
  const std::string file = scratch / "adapter/adapter_model.safetensors";
  CHECK(side_run({"merge-lora", "-b", scratch / "base", "-a", file, "-o", scratch / "adapter", "--overwrite"})
            .status == 1);
  CHECK(side_names(scratch / "adapter") == before);
  CHECK(side_run({"run", "-i", scratch / "base", "-o", scratch / "adapter", "--overwrite", "--merge-lora",
                  scratch / "adapter"})
            .status == 1);
  CHECK(side_names(scratch / "adapter") == before);
  // A configuration from elsewhere is an input, too.
  fs::create_directory(scratch / "configs");
  fs::copy_file(scratch / "adapter/adapter_config.json", scratch / "configs/peft.json");
  CHECK(side_run({"merge-lora", "-b", scratch / "base", "-a", scratch / "adapter", "--adapter-config",
                  scratch / "configs/peft.json", "-o", scratch / "configs", "--overwrite"})
            .status == 1);
  CHECK(side_names(scratch / "configs") == SideWords{"peft.json"});
}

TEST_CASE("a side file that changes during the run is noticed, and nothing is left") {
  // When it changes: between reading and the start, during the run, also one that is copied.
  for (const int when : {0, 1, 2}) {
    INFO(when);
    ScratchFolder scratch;
    scratch.write("in/config.json", "{}");
    scratch.write("in/model.safetensors", "some data");
    scratch.write("in/tokenizer.json", "{}");
    PlanBuilder builder("copy", {});
    builder.add_input({"model.safetensors", 9, ""});
    builder.add_output({.name = "model.safetensors", .size = 9}, "");
    PlanEntry entry;
    entry.name = "t";
    entry.to = {.row_bytes = 9};
    entry.from = {{.row_bytes = 9}};
    builder.add_copy(entry);
    builder.add_side({.name = "config.json", .copied = false, .bytes = "{ }"});
    builder.add_side({.name = "tokenizer.json"});
    auto plan = builder.build();
    REQUIRE(plan.ok());
    ExecuteOptions options;
    options.input_folder = options.side_folder = scratch / "in";
    options.sides = {{scratch / "in/config.json", *file_fingerprint(scratch / "in/config.json")}};
    if (when == 0) scratch.write("in/config.json", "{\"a\":1}");
    options.progress = [&](const Progress&) {
      if (when == 1) scratch.write("in/config.json", "{\"a\":1}");
      if (when == 2) scratch.write("in/tokenizer.json", "{\"a\":1}");
    };
    auto report =
        execute(*plan, {{.path = scratch / "in/model.safetensors"}}, {.path = scratch / "out"}, options);
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kIoChanged);
    CHECK(report.error().file == (scratch / (when == 2 ? "in/tokenizer.json" : "in/config.json")));
    CHECK_FALSE(fs::exists(scratch / "out"));
  }
}

TEST_CASE("a dry run refuses what does not fit, as the run would, and makes nothing") {
  ScratchFolder scratch;
  const uint64_t free = fs::space(scratch.path()).available;
  const uint64_t size = free + (uint64_t{1} << 30);
  std::string header = "{\"t\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(size) +
                       "],\"data_offsets\":[0," + std::to_string(size) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  scratch.write("in/model.safetensors", text + header);
  fs::resize_file(scratch / "in/model.safetensors", 8 + header.size() + size);
  const ProgramRun run = side_run({"passthrough", "-i", scratch / "in", "-o", scratch / "out", "--dry-run"});
  CHECK(run.status == 1);
  CHECK(mentions(run, "is too small"));
  CHECK(side_names(scratch.path()) == SideWords{"in"});
}

TEST_CASE("a dry run says how much memory a run needs, also for copies") {
  ScratchFolder scratch;
  copy_input("base_f32", scratch / "in");
  const ProgramRun run =
      side_run({"passthrough", "-i", scratch / "in", "-o", scratch / "out", "--dry-run", "--threads", "3"});
  CHECK(run.status == 0);
  CHECK(run.out.find("\nmemory 0\n") == std::string::npos);
}

}  // namespace tftf
