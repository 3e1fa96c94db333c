// The order of syncs, which no killed process can show: the page cache survives SIGKILL, but not a power
// failure.
#include <catch2/catch.hpp>

#include "fake_folder.h"
#include "scratch.h"
#include "tftf_native/executor.h"
#include "toy_model.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct PowerCase {
  Scratch scratch;
  ToyModel model{20'000};
  std::vector<RunInput> inputs;
  ExecuteOptions options;
  PowerCase() {
    for (size_t i = 0; i < 2; ++i) {
      const std::string path = scratch / ("in" + std::to_string(i));
      spill(path, model.inputs[i]);
      inputs.push_back({.path = path});
    }
    spill(scratch / "config.json", "{}");
    options.side_folder = scratch.path();
    options.threads = 2;
    options.journal_interval = std::chrono::milliseconds(0);
    options.journal_bytes = 8000;
    options.journal_rest = 0;
  }
  Result<RunReport> run(FakeDisk& disk) {
    auto plan = model.plan(1 << 10, true);
    if (!plan.ok()) return std::move(plan).error();
    return execute(*plan, inputs, std::make_shared<FakeFolder>(disk), options);
  }
  bool whole(const FakeDisk& disk, size_t i) const {
    const auto found = disk.names.find(ToyModel::output_name(i));
    return found != disk.names.end() && found->second->now == model.outputs[i];
  }
};

}  // namespace

TEST_CASE("whenever the power fails, no final name has wrong bytes and the same command completes the work") {
  PowerCase c;
  FakeDisk first;
  REQUIRE(c.run(first).ok());
  const uint64_t operations = first.operations;
  uint64_t skipped = 0;
  uint64_t resumed = 0;
  for (uint64_t at = 0; at <= operations; ++at)
    for (uint32_t seed = 0; seed < 2; ++seed) {
      INFO("operation " << at << ", seed " << seed);
      FakeDisk disk;
      disk.power_fails_at = at;
      (void)c.run(disk);
      disk.restart(static_cast<uint32_t>(at * 2 + seed));
      bool all = true;
      for (size_t i = 0; i < 3; ++i) {
        all = all && c.whole(disk, i);
        if (disk.names.count(ToyModel::output_name(i)) != 0) CHECK(c.whole(disk, i));
      }
      if (disk.names.count("toy.safetensors.index.json") != 0) CHECK(all);
      auto report = c.run(disk);
      if (!report.ok()) FAIL(report.error().message);
      for (size_t i = 0; i < 3; ++i) CHECK(c.whole(disk, i));
      CHECK(disk.names.size() == 6);
      CHECK(disk.durable_names == disk.names);
      skipped += report->steps_skipped;
      resumed += report->resumed ? 1 : 0;
    }
  CHECK(resumed > operations);
  CHECK(skipped > operations);
}

TEST_CASE("every part is synced before its rename, the folder before the index, the journal goes last") {
  PowerCase c;
  FakeDisk disk;
  REQUIRE(c.run(disk).ok());
  const auto position = [&](const std::string& what) {
    const auto found = std::find(disk.history.rbegin(), disk.history.rend(), what);
    REQUIRE(found != disk.history.rend());
    return disk.history.rend() - found;
  };
  const auto index = position("rename toy.safetensors.index.json.tftf-part toy.safetensors.index.json");
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = ToyModel::output_name(i);
    const auto renamed = position("rename " + name + ".tftf-part " + name);
    CHECK(position("write " + name + ".tftf-part") < position("sync " + name + ".tftf-part"));
    CHECK(position("sync " + name + ".tftf-part") < renamed);
    CHECK(renamed < index);
    CHECK(std::count(disk.history.begin() + renamed, disk.history.begin() + index, "sync folder") > 0);
  }
  CHECK(index < position("remove .tftf-journal"));
  CHECK(disk.history.back() == "sync folder");
}

TEST_CASE("a destination that is full at the start is known before anything is written, and left empty") {
  PowerCase c;
  FakeDisk disk;
  disk.capacity = 60'000;
  auto report = c.run(disk);
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kIoSpace);
  INFO(report.error().message);
  CHECK(report.error().message.find("more bytes are needed") != std::string::npos);
  CHECK(disk.names.empty());
}

TEST_CASE("a destination that fills up on the way leaves parts and journal, and nothing under a final name") {
  PowerCase c;
  uint64_t needed = 0;
  for (const std::string& output : c.model.outputs) needed += output.size();
  for (uint64_t capacity = 4000; capacity < needed; capacity += 9973) {
    FakeDisk disk;
    disk.can_allocate = false;
    disk.capacity = capacity;
    auto report = c.run(disk);
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kIoSpace);
    for (const auto& [name, inode] : disk.names) {
      INFO(name);
      CHECK((name == ".tftf-journal" || name.find(".tftf-part") != std::string::npos));
    }
    // The missing bytes are exact up to the pages of the journal and of started ones.
    const uint64_t missing = std::stoull(report.error().expected) - std::stoull(report.error().found);
    CHECK(missing + capacity > needed / 2);
    CHECK(missing <= needed);
    disk.capacity = UINT64_MAX;
    report = c.run(disk);
    if (!report.ok()) FAIL(report.error().message);
    for (size_t i = 0; i < 3; ++i) CHECK(c.whole(disk, i));
    CHECK(disk.names.size() == 6);
  }
}
