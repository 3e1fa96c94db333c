#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "sanitized.h"
#include "scratch.h"
#include "tftf_native/executor.h"
#include "toy_model.h"

using namespace tftf;
using namespace tftf::test;
namespace fs = std::filesystem;

namespace {

struct ResumeCase {
  Scratch scratch;
  ToyModel model;
  ExecuteOptions options;
  explicit ResumeCase(size_t size) : model(size) {
    for (size_t i = 0; i < model.inputs.size(); ++i) spill(input(i), model.inputs[i]);
    fs::create_directory(scratch / "model");
    spill(scratch / "model/config.json", "{}");
    options.side_folder = scratch / "model";
    options.threads = 2;
    options.journal_interval = std::chrono::milliseconds(1);
    options.journal_rest = 0;
  }
  std::string input(size_t i) const { return scratch / ("in" + std::to_string(i)); }
  std::string out() const { return scratch / "out"; }
  Result<RunReport> run(const std::string& command = "toy", uint64_t tile = 4096) {
    auto plan = model.plan(tile, true, command);
    if (!plan.ok()) return std::move(plan).error();
    return execute(*plan, {{.path = input(0)}, {.path = input(1)}}, {.path = out()}, options);
  }
  // A run that is stopped once it has written something that its journal knows; a new one where it was faster than that.
  void interrupt() {
    options.progress = nullptr;
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::atomic<bool> stop{false};
      options.stop = &stop;
      std::thread stopper([&] {
        while (!stop && slurp(out() + "/.tftf-journal").find("\"done\"") == std::string::npos)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stop = true;
      });
      auto report = run();
      stop = true;
      stopper.join();
      options.stop = nullptr;
      if (!report.ok()) {
        REQUIRE(report.error().code == ErrorCode::kInterrupted);
        return;
      }
      REQUIRE(whole());
      fs::remove_all(out());
    }
    FAIL("no run could be stopped");
  }
  bool whole() const {
    for (size_t i = 0; i < 3; ++i)
      if (slurp(out() + "/" + ToyModel::output_name(i)) != model.outputs[i]) return false;
    return names_in(out()).size() == 6;
  }
};

}  // namespace

TEST_CASE("killed at thirty random moments, each time continued with another number of threads") {
  ResumeCase c(test::kSanitized ? 500'000 : 2'000'000);
  std::mt19937 random(20240229);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  REQUIRE(c.run().ok());
  const auto whole_run = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  fs::remove_all(c.out());
  uint64_t skipped = 0;
  int killed = 0;
  int resumed = 0;
  while (killed < 30) {
    const uint32_t threads = 1 + random() % 4;
    const auto delay = std::chrono::microseconds(random() % static_cast<uint32_t>(whole_run));
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      c.options.threads = threads;
      auto report = c.run();
      if (!report.ok()) spill(c.scratch / "error", report.error().message);
      ::_exit(report.ok() ? 0 : 1);
    }
    std::this_thread::sleep_for(delay);
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      // It was faster than the signal: whole, and a new start.
      INFO(slurp(c.scratch / "error"));
      REQUIRE(WEXITSTATUS(status) == 0);
      CHECK(c.whole());
      fs::remove_all(c.out());
      continue;
    }
    ++killed;
    for (size_t i = 0; i < 3; ++i) {
      const std::string final = c.out() + "/" + ToyModel::output_name(i);
      if (fs::exists(final)) CHECK((slurp(final) == c.model.outputs[i]));
    }
    if (!fs::exists(c.out() + "/.tftf-journal") && !names_in(c.out()).empty()) {
      CHECK(c.whole());  // killed after the last operation
    } else if (killed % 3 != 0) {
      continue;  // killed again before it is let through
    } else {
      const bool journal =
          fs::exists(c.out() + "/.tftf-journal") && fs::file_size(c.out() + "/.tftf-journal") > 0;
      c.options.threads = 1 + killed % 5;
      auto report = c.run();
      if (!report.ok()) FAIL(report.error().message);
      CHECK(report->resumed == journal);
      resumed += report->resumed ? 1 : 0;
      skipped += report->steps_skipped;
      CHECK(c.whole());
    }
    fs::remove_all(c.out());
  }
  CHECK(resumed >= 3);
  CHECK(skipped > 100);
}

TEST_CASE("an interruption flushes the journal; the same command skips what it says") {
  ResumeCase c(test::kSanitized ? 1'000'000 : 4'000'000);
  c.interrupt();
  CHECK(fs::exists(c.out() + "/.tftf-journal"));
  for (const std::string& name : names_in(c.out()))
    CHECK((name == ".tftf-journal" || name.find(".tftf-part") != std::string::npos));
  c.options.threads = 1;
  auto report = c.run();
  if (!report.ok()) FAIL(report.error().message);
  CHECK(report->resumed);
  CHECK(report->steps_skipped > 0);
  CHECK(c.whole());
}

TEST_CASE("an interruption before anything was written leaves nothing") {
  ResumeCase c(100'000);
  const std::atomic<bool> stop{true};
  c.options.stop = &stop;
  auto report = c.run();
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kInterrupted);
  CHECK_FALSE(fs::exists(c.out()));
}

TEST_CASE(
    "another command, other tiles or a changed input do not continue, and leave the journal's work alone") {
  ResumeCase c(test::kSanitized ? 1'000'000 : 4'000'000);
  c.interrupt();
  const auto before = names_in(c.out());
  const std::string journal = slurp(c.out() + "/.tftf-journal");
  const auto refused = [&](Result<RunReport> report, const std::string& word) {
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kRefusedJournal);
    INFO(report.error().message);
    CHECK(report.error().message.find("--no-resume") != std::string::npos);
    CHECK(report.error().message.find(word) != std::string::npos);
    CHECK(names_in(c.out()) == before);
    CHECK(slurp(c.out() + "/.tftf-journal") == journal);
  };
  refused(c.run("other"), "another command");
  refused(c.run("toy", 8192), "tiles");
  const auto time = fs::last_write_time(c.input(1));
  fs::last_write_time(c.input(1), time + std::chrono::seconds(1));
  refused(c.run(), "in1");
  fs::last_write_time(c.input(1), time);

  SECTION("it goes on when the input is as it was") {
    auto report = c.run();
    if (!report.ok()) FAIL(report.error().message);
    CHECK(report->resumed);
    CHECK(c.whole());
  }
  SECTION("--no-resume removes what is there and starts anew") {
    c.options.resume = false;
    auto report = c.run("other", 8192);
    if (!report.ok()) FAIL(report.error().message);
    CHECK_FALSE(report->resumed);
    CHECK(report->steps_skipped == 0);
    CHECK(c.whole());
  }
  SECTION("a part that the journal knows must be there") {
    for (const std::string& name : before)
      if (name.find(".tftf-part") != std::string::npos) fs::remove(c.out() + "/" + name);
    auto report = c.run();
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kRefusedJournal);
    CHECK(report.error().message.find("missing") != std::string::npos);
  }
  SECTION("a part of another size is not the one") {
    for (const std::string& name : before)
      if (name.find(".tftf-part") != std::string::npos) fs::resize_file(c.out() + "/" + name, 10);
    auto report = c.run();
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kRefusedJournal);
  }
  SECTION("a torn last line is ignored") {
    std::ofstream(c.out() + "/.tftf-journal", std::ios::app) << "{\"phase\":1,\"done\":[[0,0,";
    auto report = c.run();
    if (!report.ok()) FAIL(report.error().message);
    CHECK(report->resumed);
    CHECK(c.whole());
  }
  SECTION("another version of the format is not guessed at") {
    std::string text = journal;
    text.replace(text.find("\"tftf_journal\":1"), 16, "\"tftf_journal\":2");
    spill(c.out() + "/.tftf-journal", text);
    auto report = c.run();
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == ErrorCode::kRefusedJournal);
    CHECK(report.error().message.find("version") != std::string::npos);
  }
  SECTION("the tile size can be asked for") {
    auto tile = journal_tile({.path = c.out()});
    REQUIRE(tile.ok());
    CHECK(*tile == 4096u);
  }
}

TEST_CASE("an input that changes while it is read is noticed, and nothing stays") {
  ResumeCase c(200'000);
  bool touched = false;
  c.options.progress = [&](const Progress&) {
    if (touched) return;
    touched = true;
    fs::last_write_time(c.input(1), fs::last_write_time(c.input(1)) + std::chrono::seconds(1));
  };
  auto report = c.run();
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kIoChanged);
  CHECK(report.error().file == c.input(1));
  CHECK_FALSE(fs::exists(c.out()));
}

TEST_CASE("an input that is no longer what the plan was made from is refused at the start") {
  ResumeCase c(10'000);
  spill(c.input(0), c.model.inputs[0] + "x");
  auto report = c.run();
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kIoChanged);
  CHECK_FALSE(fs::exists(c.out()));
}

TEST_CASE("two runs into one folder at a time are refused") {
  ResumeCase c(test::kSanitized ? 1'000'000 : 4'000'000);
  c.options.threads = 1;
  std::optional<Error> second;
  c.options.progress = [&](const Progress&) {
    if (second) return;
    ResumeCase& outer = c;
    auto plan = outer.model.plan(4096, true);
    ExecuteOptions options = outer.options;
    options.progress = nullptr;
    auto report =
        execute(*plan, {{.path = outer.input(0)}, {.path = outer.input(1)}}, {.path = outer.out()}, options);
    second = report.ok() ? Error{.message = "it ran"} : report.error();
  };
  auto report = c.run();
  if (!report.ok()) FAIL(report.error().message);
  REQUIRE(second);
  INFO(second->message);
  CHECK(second->code == ErrorCode::kRefusedOutput);
  CHECK(c.whole());
}

TEST_CASE("a small tmpfs that is full") {
  ResumeCase c(2'000'000);
  fs::create_directory(c.scratch / "small");
  if (::mount("tmpfs", (c.scratch / "small").c_str(), "tmpfs", 0, "size=4m") != 0) {
    // Mounting is not allowed everywhere; power_test.cpp has a full disk without it.
    WARN("no tmpfs could be mounted");
    return;
  }
  auto plan = c.model.plan(4096, true);
  auto report = execute(*plan, {{.path = c.input(0)}, {.path = c.input(1)}},
                        {.path = c.scratch / "small/out"}, c.options);
  const auto left = names_in(c.scratch / "small");
  ::umount((c.scratch / "small").c_str());
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code == ErrorCode::kIoSpace);
  CHECK(report.error().message.find("more bytes are needed") != std::string::npos);
  CHECK(left.empty());
}
