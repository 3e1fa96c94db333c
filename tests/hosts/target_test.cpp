#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "scratch.h"
#include "tftf_native/executor.h"

using namespace tftf;
using namespace tftf::test;
namespace fs = std::filesystem;

namespace {

// A model folder "model" with one shard, and a plan that copies it to "model-00001-of-00001.safetensors" and an index.
struct TargetCase {
  Scratch scratch;
  const std::string shard = "model-00001-of-00001.safetensors";
  const std::string data = "some data";
  ExecuteOptions options;
  OutputTarget target;

  TargetCase() {
    fs::create_directory(scratch / "model");
    spill(input(), data);
    options.input_folder = scratch / "model";
    target.path = scratch / "out";
  }
  std::string input() const { return scratch / ("model/" + shard); }

  Plan plan() const {
    PlanBuilder builder("copy", {});
    builder.add_input({shard, data.size(), ""});
    builder.add_output({.name = shard, .size = data.size()}, "");
    PlanEntry entry;
    entry.name = "t";
    entry.to = {.row_bytes = data.size()};
    entry.from = {{.row_bytes = data.size()}};
    builder.add_copy(entry);
    if (!target.single_file)
      builder.add_side(
          {.name = "model.safetensors.index.json", .copied = false, .bytes = "{}", .is_index = true});
    return *builder.build();
  }

  // The error code of the run, nothing when it succeeds. A refusal changes nothing, and a dry run says the same.
  std::optional<ErrorCode> run() {
    Plan p = plan();
    const auto before = everything();
    auto checked = check_target(p, {{.path = input()}}, target, options);
    CHECK(everything() == before);
    auto report = execute(p, {{.path = input()}}, target, options);
    CHECK(slurp(input()) == data);
    if (report.ok()) {
      CHECK(checked.ok());
      return std::nullopt;
    }
    INFO(report.error().message);
    CHECK(everything() == before);
    if (report.error().code == ErrorCode::kRefusedOutput) {
      REQUIRE_FALSE(checked.ok());
      CHECK(checked.error().message == report.error().message);
    }
    return report.error().code;
  }
  bool refused() { return run() == ErrorCode::kRefusedOutput; }
  bool works() { return !run().has_value(); }

  // Paths, kinds and contents.
  std::vector<std::string> everything() const {
    std::vector<std::string> list;
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
      list.push_back(entry.path().string() + " " +
                     std::to_string(static_cast<int>(entry.symlink_status().type())) +
                     (fs::is_regular_file(entry.symlink_status()) ? slurp(entry.path().string()) : ""));
    std::sort(list.begin(), list.end());
    return list;
  }
};

}  // namespace

TEST_CASE("a folder that is not there, or is empty, is written; one that holds anything is refused") {
  TargetCase c;
  CHECK(c.works());
  CHECK(names_in(c.scratch / "out").size() == 2);
  CHECK(c.refused());
  fs::remove_all(c.scratch / "out");
  fs::create_directory(c.scratch / "out");
  CHECK(c.works());
  fs::remove_all(c.scratch / "out");
  fs::create_directory(c.scratch / "out");
  spill(c.scratch / "out/.hidden", "");
  CHECK(c.refused());
}

TEST_CASE("parents are made, a detour through one that is not there is none") {
  TargetCase c;
  c.target.path = c.scratch / "a/b/../c/out/";
  CHECK(c.works());
  CHECK(slurp(c.scratch / ("a/c/out/" + c.shard)) == c.data);
}

TEST_CASE(
    "--overwrite replaces the same names, removes stale shards of the same stem, and touches nothing else") {
  TargetCase c;
  fs::create_directory(c.scratch / "out");
  const std::vector<std::string> stale = {"model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};
  const std::vector<std::string> kept = {"model.safetensors",
                                         "other-00001-of-00002.safetensors",
                                         "other.safetensors.index.json",
                                         "model-0000x-of-00002.safetensors",
                                         "model-00001-of-00002.safetensors.bak",
                                         "model-00001-of-.safetensors",
                                         "-of-1.safetensors",
                                         "tokenizer.json"};
  for (const auto* names : {&stale, &kept})
    for (const std::string& name : *names) spill(c.scratch / ("out/" + name), "old");
  spill(c.scratch / ("out/" + c.shard), "old");
  spill(c.scratch / ("out/" + c.shard + ".tftf-part"), "old");
  spill(c.scratch / "out/model.safetensors.index.json", "old");
  CHECK(c.refused());
  c.options.overwrite = true;
  CHECK(c.works());
  std::vector<std::string> expected = kept;
  expected.push_back(c.shard);
  expected.push_back("model.safetensors.index.json");
  std::sort(expected.begin(), expected.end());
  CHECK(names_in(c.scratch / "out") == expected);
  CHECK(slurp(c.scratch / ("out/" + c.shard)) == c.data);
  CHECK(slurp(c.scratch / "out/model.safetensors.index.json") == "{}");
  for (const std::string& name : kept) CHECK(slurp(c.scratch / ("out/" + name)) == "old");
}

TEST_CASE("an output that is the input folder, or lies in it, is refused by whatever way it is named") {
  TargetCase c;
  fs::create_directory_symlink(c.scratch / "model", c.scratch / "link");
  fs::create_directory(c.scratch / "model/sub");
  fs::create_directory_symlink(c.scratch / "model/sub", c.scratch / "sublink");
  c.options.overwrite = GENERATE(false, true);
  for (const std::string path :
       {"model", "model/", "model/.", "model/new/deep", "link", "link/new", "model/sub", "sublink/x",
        "model/sub/..", "x/../model", "x/../model/new", "./model/../link/y"}) {
    INFO(path);
    c.target.path = c.scratch / path;
    CHECK(c.refused());
  }
  c.target.path = c.scratch / "model2";
  CHECK(c.works());
}

TEST_CASE("a relative output is resolved") {
  TargetCase c;
  const fs::path old = fs::current_path();
  fs::current_path(c.scratch / "model");
  c.target.path = "../model/out";
  const bool inside = c.refused();
  c.target.path = "../out";
  const bool beside = c.works();
  fs::current_path(old);
  CHECK(inside);
  CHECK(beside);
}

TEST_CASE("an output file that is an input is refused: the path, a link, a hard link") {
  TargetCase c;
  c.target.single_file = true;
  c.options.input_folder.clear();
  c.options.overwrite = true;
  fs::create_symlink(c.input(), c.scratch / "soft.safetensors");
  fs::create_hard_link(c.input(), c.scratch / "hard.safetensors");
  for (const std::string& path : {"model/" + c.shard, std::string("soft.safetensors"),
                                  std::string("hard.safetensors"), "model/../model/" + c.shard}) {
    INFO(path);
    c.target.path = c.scratch / path;
    CHECK(c.refused());
  }
  // Beside the lone input file there is nothing against it.
  c.target.path = c.scratch / "model/new.safetensors";
  CHECK(c.works());
  CHECK(c.works());
  c.options.overwrite = false;
  CHECK(c.refused());
}

TEST_CASE("a folder whose files are the input by another name is not overwritten") {
  TargetCase c;
  c.options.overwrite = true;
  fs::create_directory(c.scratch / "out");
  SECTION("hard link") { fs::create_hard_link(c.input(), c.scratch / ("out/" + c.shard)); }
  SECTION("the input is a link into it") {
    fs::rename(c.input(), c.scratch / ("out/" + c.shard));
    fs::create_symlink(c.scratch / ("out/" + c.shard), c.input());
  }
  SECTION("under a temporary name") {
    fs::create_hard_link(c.input(), c.scratch / ("out/" + c.shard + ".tftf-part"));
  }
  SECTION("as the journal") { fs::create_hard_link(c.input(), c.scratch / "out/.tftf-journal"); }
  CHECK(c.refused());
}

TEST_CASE("things that are no files or folders are refused, not followed and not waited for") {
  TargetCase c;
  c.options.overwrite = true;
  SECTION("a FIFO as the folder") { REQUIRE(::mkfifo((c.scratch / "out").c_str(), 0600) == 0); }
  SECTION("a file as the folder") { spill(c.scratch / "out", "x"); }
  SECTION("a FIFO under a final name") {
    fs::create_directory(c.scratch / "out");
    REQUIRE(::mkfifo((c.scratch / ("out/" + c.shard)).c_str(), 0600) == 0);
  }
  SECTION("a folder under a final name") { fs::create_directories(c.scratch / ("out/" + c.shard)); }
  SECTION("a FIFO as the journal") {
    fs::create_directory(c.scratch / "out");
    REQUIRE(::mkfifo((c.scratch / "out/.tftf-journal").c_str(), 0600) == 0);
  }
  SECTION("a loop of links") {
    fs::create_symlink(c.scratch / "b", c.scratch / "out");
    fs::create_symlink(c.scratch / "out", c.scratch / "b");
  }
  SECTION("a file among the parents") {
    spill(c.scratch / "file", "x");
    c.target.path = c.scratch / "file/out";
  }
  SECTION("a device as the file") {
    c.target.single_file = true;
    c.target.path = "/dev/null";
  }
  SECTION("a folder as the file") {
    c.target.single_file = true;
    fs::create_directory(c.scratch / "out");
  }
  SECTION("a FIFO as the file") {
    c.target.single_file = true;
    REQUIRE(::mkfifo((c.scratch / "out").c_str(), 0600) == 0);
  }
  CHECK(c.refused());
}

TEST_CASE("a part is never written through a link that lies in wait") {
  TargetCase c;
  spill(c.scratch / "victim", "precious");
  fs::create_directory(c.scratch / "out");
  fs::create_symlink(c.scratch / "victim", c.scratch / ("out/" + c.shard + ".tftf-part"));
  fs::create_symlink(c.scratch / "victim", c.scratch / ("out/" + c.shard));
  CHECK(c.refused());
  c.options.overwrite = true;
  CHECK(c.works());
  CHECK(slurp(c.scratch / "victim") == "precious");
  CHECK(slurp(c.scratch / ("out/" + c.shard)) == c.data);
  CHECK_FALSE(fs::is_symlink(c.scratch / ("out/" + c.shard)));
}

TEST_CASE("a journal that is a link is not followed") {
  TargetCase c;
  spill(c.scratch / "victim", "precious");
  fs::create_directory(c.scratch / "out");
  fs::create_symlink(c.scratch / "victim", c.scratch / "out/.tftf-journal");
  CHECK(c.refused());
  CHECK(slurp(c.scratch / "victim") == "precious");
}

TEST_CASE("an input that is a FIFO or a folder is an error at once") {
  TargetCase c;
  Plan plan = c.plan();
  REQUIRE(::mkfifo((c.scratch / "fifo").c_str(), 0600) == 0);
  for (const std::string name : {"fifo", "model", "missing"}) {
    CHECK_FALSE(open_file_source(c.scratch / name).ok());
    auto report = execute(plan, {{.path = c.scratch / name}}, c.target, c.options);
    CHECK_FALSE(report.ok());
    CHECK_FALSE(fs::exists(c.scratch / "out"));
  }
}

TEST_CASE("beside earlier files only the own names are refused") {
  TargetCase c;
  c.target.beside = true;
  fs::create_directory(c.scratch / "out");
  spill(c.scratch / "out/earlier.safetensors", "old");
  spill(c.scratch / "out/earlier.tftf-part", "old");
  CHECK(c.works());
  CHECK(slurp(c.scratch / "out/earlier.safetensors") == "old");
  CHECK(slurp(c.scratch / "out/earlier.tftf-part") == "old");
  CHECK(c.refused());
}

TEST_CASE("parts without a journal are removed by --no-resume only") {
  TargetCase c;
  fs::create_directory(c.scratch / "out");
  spill(c.scratch / "out/model-00001-of-00009.safetensors.tftf-part", "old");
  CHECK(c.refused());
  c.options.resume = false;
  CHECK(c.works());
  CHECK(names_in(c.scratch / "out").size() == 2);
}

TEST_CASE("an output folder that may not be written is an error that names it") {
  TargetCase c;
  REQUIRE(::chmod(c.scratch.path().c_str(), 0755) == 0);
  REQUIRE(::chmod((c.scratch / "model").c_str(), 0755) == 0);
  REQUIRE(::chmod(c.input().c_str(), 0644) == 0);
  fs::create_directory(c.scratch / "out");
  REQUIRE(::chmod((c.scratch / "out").c_str(), 0555) == 0);
  const uid_t user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);  // root may write anywhere
  Plan plan = c.plan();
  auto inside = execute(plan, {{.path = c.input()}}, c.target, c.options);
  c.target.path = c.scratch / "out/deeper";
  auto below = execute(plan, {{.path = c.input()}}, c.target, c.options);
  if (user == 0) REQUIRE(::seteuid(0) == 0);
  REQUIRE_FALSE(inside.ok());
  CHECK(inside.error().code == ErrorCode::kIoWrite);
  CHECK(inside.error().message.find("out") != std::string::npos);
  REQUIRE_FALSE(below.ok());
  CHECK(below.error().code == ErrorCode::kIoWrite);
  CHECK(names_in(c.scratch / "out").empty());
}
