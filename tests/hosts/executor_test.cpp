#include "tftf_native/executor.h"
#include "sanitized.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "scratch.h"
#include "toy_model.h"
#include "toy_ops.h"

using namespace tftf;
using namespace tftf::test;
namespace fs = std::filesystem;

namespace {

struct ExecutorCase {
  Scratch scratch;
  ToyModel model;
  explicit ExecutorCase(size_t size) : model(size) {
    for (size_t i = 0; i < model.inputs.size(); ++i) spill(input(i), model.inputs[i]);
  }
  std::string input(size_t i) const { return scratch / ("in" + std::to_string(i)); }
  std::vector<RunInput> inputs() const { return {{.path = input(0)}, {.path = input(1)}}; }
  std::string out(size_t i) const { return scratch / ("out/" + ToyModel::output_name(i)); }
  void check_outputs() const {
    for (size_t i = 0; i < 3; ++i) {
      INFO(i);
      CHECK((slurp(out(i)) == model.outputs[i]));
    }
  }
};

}  // namespace

TEST_CASE("the same bytes for every number of threads and every tile size") {
  ExecutorCase c(test::kSanitized ? 300'001 : 1'200'001);
  for (const uint32_t threads : {1, 2, 8})
    for (const uint64_t tile : {1u << 10, 1u << 16, 1u << 20, 1u << 22}) {
      INFO(threads << " threads, tiles of " << tile);
      auto plan = c.model.plan(tile);
      REQUIRE(plan.ok());
      auto report = execute(*plan, c.inputs(), {.path = c.scratch / "out"}, {.threads = threads});
      if (!report.ok()) FAIL(report.error().message);
      c.check_outputs();
      CHECK(names_in(c.scratch / "out").size() == 3);
      CHECK_FALSE(report->resumed);
      CHECK(report->steps_run == plan->step_count());
      CHECK(report->steps_skipped == 0);
      CHECK(report->bytes_written == plan->written_bytes());
      fs::remove_all(c.scratch / "out");
    }
}

TEST_CASE("side files keep mode and time, the index comes with them, nothing temporary stays") {
  ExecutorCase c(5000);
  fs::create_directory(c.scratch / "model");
  spill(c.scratch / "model/config.json", "{\"a\": 1}");
  REQUIRE(::chmod((c.scratch / "model/config.json").c_str(), 0640) == 0);
  fs::last_write_time(c.scratch / "model/config.json",
                      fs::file_time_type::clock::now() - std::chrono::hours(1000));
  auto plan = c.model.plan(4096, true);
  REQUIRE(plan.ok());
  auto report =
      execute(*plan, c.inputs(), {.path = c.scratch / "deep/er/out"}, {.side_folder = c.scratch / "model"});
  if (!report.ok()) FAIL(report.error().message);
  const std::string out = c.scratch / "deep/er/out/";
  CHECK(slurp(out + "config.json") == "{\"a\": 1}");
  CHECK(slurp(out + "note.txt") == "a note\n");
  CHECK(slurp(out + "toy.safetensors.index.json") == "{}");
  CHECK(names_in(out).size() == 6);
  struct stat a {
  }, b{};
  REQUIRE(::stat((c.scratch / "model/config.json").c_str(), &a) == 0);
  REQUIRE(::stat((out + "config.json").c_str(), &b) == 0);
  CHECK(a.st_mode == b.st_mode);
  CHECK(a.st_mtim.tv_sec == b.st_mtim.tv_sec);
  CHECK(a.st_mtim.tv_nsec == b.st_mtim.tv_nsec);
}

TEST_CASE("a single file gets the name that was given") {
  Scratch scratch;
  const std::string in = pattern(100'000, 5);
  spill(scratch / "in", in);
  PlanBuilder builder("toy", {});
  builder.add_input({"in", in.size(), ""});
  builder.add_output({.name = "model.safetensors", .size = 8 + in.size()}, "HEADER__");
  PlanEntry copy;
  copy.name = "t";
  copy.to = {.offset = 8, .row_bytes = in.size()};
  copy.from = {{.row_bytes = in.size()}};
  builder.add_copy(copy);
  auto plan = builder.build();
  REQUIRE(plan.ok());
  auto report = execute(*plan, {{.path = scratch / "in"}},
                        {.path = scratch / "other.safetensors", .single_file = true}, {});
  if (!report.ok()) FAIL(report.error().message);
  CHECK((slurp(scratch / "other.safetensors") == "HEADER__" + in));
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"in", "other.safetensors"});
}

TEST_CASE("a plan without outputs writes side files and leaves nothing else") {
  Scratch scratch;
  PlanBuilder builder("nothing", {});
  builder.add_side(
      {.name = "model.safetensors.index.json", .copied = false, .bytes = "{}", .is_index = true});
  auto plan = builder.build();
  REQUIRE(plan.ok());
  auto report = execute(*plan, {}, {.path = scratch / "out"}, {});
  if (!report.ok()) FAIL(report.error().message);
  CHECK(names_in(scratch / "out") == std::vector<std::string>{"model.safetensors.index.json"});
}

TEST_CASE("what finish() refuses leaves nothing behind, the folder included") {
  ExecutorCase c(50'000);
  PlanBuilder builder("toy", {.tile_bytes = 1000});
  builder.add_input({"in0", c.model.inputs[0].size(), ""});
  builder.add_output({.name = "a", .size = 50'000}, "");
  const Extent from{.row_bytes = 50'000};
  PlanEntry entry;
  entry.name = "a";
  entry.to = from;
  builder.add_item(toy_item(kXor, builder.add_tensor(entry), from, from, 1000));
  builder.on_finish([&](size_t, std::span<const Value> values, Tables&) -> Result<void> {
    CHECK(values[0].n[0] == c.model.sum);
    return Error{.code = ErrorCode::kRefusedValues, .message = "no"};
  });
  auto plan = builder.build();
  REQUIRE(plan.ok());
  auto report = execute(*plan, {{.path = c.input(0)}}, {.path = c.scratch / "x/out"}, {});
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kRefusedValues);
  CHECK_FALSE(fs::exists(c.scratch / "x"));
}

TEST_CASE("progress is told, rises and ends at the total") {
  ExecutorCase c(300'000);
  auto plan = c.model.plan(4096);
  REQUIRE(plan.ok());
  uint64_t last = 0;
  uint64_t total = 0;
  bool rises = true;
  ExecuteOptions options;
  options.progress = [&](const Progress& progress) {
    rises = rises && progress.done >= last;
    last = progress.done;
    total = progress.total;
  };
  REQUIRE(execute(*plan, c.inputs(), {.path = c.scratch / "out"}, options).ok());
  CHECK(rises);
  CHECK(last == total);
  CHECK(total == plan->written_bytes() + 300'000);
}

TEST_CASE("more files than may be open at a time") {
  Scratch scratch;
  constexpr uint32_t kFiles = 300;
  PlanBuilder builder("toy", {});
  std::vector<RunInput> inputs;
  for (uint32_t i = 0; i < kFiles; ++i) {
    const std::string name = "f" + std::to_string(i);
    spill(scratch / name, pattern(1000, i));
    inputs.push_back({.path = scratch / name});
    builder.add_input({name, 1000, ""});
    builder.add_output({.name = name, .size = 1000}, "");
    const Extent extent{.file = i, .row_bytes = 1000};
    PlanEntry entry;
    entry.name = name;
    entry.to = extent;
    builder.add_item(toy_item(kXor, builder.add_tensor(entry), extent, extent, 300));
  }
  auto plan = builder.build();
  REQUIRE(plan.ok());
  auto report = execute(*plan, inputs, {.path = scratch / "out"}, {.threads = 8});
  if (!report.ok()) FAIL(report.error().message);
  bool same = true;
  for (uint32_t i = 0; i < kFiles; ++i)
    same = same && slurp(scratch / ("out/f" + std::to_string(i))) == pattern(1000, i);
  CHECK(same);
}
