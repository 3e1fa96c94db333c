// One run of a program: common options, where its words go, and how it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/json_text.h"
#include "tftf/base/result.h"
#include "tftf/container/header.h"
#include "tftf/simd/kernels.h"

namespace CLI {
class App;
}

namespace tftf::cli {

// Options of every command (spec cli 1).
struct CommonOptions {
  bool json = false;
  bool no_progress = false;
  bool quiet = false;
  int verbose = 0;
  uint32_t threads = 0;                // 0: as many as there are processors
  std::optional<uint64_t> max_memory;  // bytes
  std::string simd;                    // name of a kernel table; empty: TFTF_SIMD, else the fastest
  uint64_t max_header = kDefaultMaxHeader;
};

class Session {
 public:
  // `program`: its name in messages.
  explicit Session(std::string program) : program_(std::move(program)) {}

  CommonOptions common;
  // What the chosen command does; gives the exit status. Set while the options are read.
  std::function<int()> command;
  // No arguments at all: the help, and that is fine; a linter that was given nothing must not pass.
  bool help_without_arguments = true;
  // A command may take arguments out before the options are read (`run` and its chain).
  std::function<void(CLI::App&, std::vector<std::string>&)> before_parse;

  std::vector<std::string> arguments;  // as given, without the program

  const std::string& program() const { return program_; }
  // The command as it was given, quoted for a shell, without the options named: for messages that tell how to go on.
  std::string command_line(std::initializer_list<std::string_view> without = {}) const;

  // The chosen kernel table; kUsage when there is none of that name here.
  Result<const KernelTable*> kernels() const;

  // stdout: the result.
  void print(std::string_view text) const;
  void print_json(const OrderedJson& value) const;
  // stderr: something looks wrong; said even with -q.
  void warn(std::string_view sentence) const;
  // stderr: good to know; not with -q.
  void note(std::string_view sentence) const;
  // Says why (stderr, with --json as data on stdout too) and gives the exit status.
  int fail(const Error& error) const;

  // Set by Ctrl-C and SIGTERM; a second one ends the process at once.
  static const std::atomic<bool>& stop_requested();

 private:
  std::string program_;
};

// Reads the arguments into what `build` sets up, runs the command, and turns everything that can go wrong
// into an exit status of spec cli 1. Without arguments the help is printed.
int run_program(Session& session, int argc, char** argv, void (*build)(CLI::App&, Session&));

}  // namespace tftf::cli
