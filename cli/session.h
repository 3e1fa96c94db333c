// One run of a program: common options, where its words go, and how it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/json_text.h"
#include "tftf/base/result.h"
#include "tftf/command/command_line.h"
#include "tftf/container/header.h"
#include "tftf/simd/kernels.h"

namespace tftf::cli {

// Options of every command (spec cli 1).
struct CommonOptions {
  bool json = false;
  bool no_progress = false;
  bool quiet = false;
  bool verbose = false;
  uint32_t threads = 0;                // 0: as many as there are processors
  std::optional<uint64_t> max_memory;  // bytes
  std::string simd;                    // name of a kernel table; empty: TFTF_SIMD, else the fastest
  uint64_t max_header = kDefaultMaxHeader;
};

class Session {
 public:
  explicit Session(Program program) : program_(program) {}

  CommonOptions common;
  std::vector<std::string> arguments;  // as given, without the program
  std::string started_as;              // the program as it was called, for commands to paste

  Program which() const { return program_; }
  std::string_view program() const { return program_name(program_); }
  // Takes the options of every command.
  void take(const CommandLine& line);
  // The command as it was given but for --no-resume, quoted for a shell: for messages that tell how to go on.
  std::string command_line(const CommandLine& line) const;

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
  Program program_;
};

// Reads the arguments by the table of commands, runs the command, and turns everything that can go wrong into an exit
// status of spec cli 1. A reader of stdout that goes away is no failure: what it wanted it has read.
int run_program(Session& session, int argc, char** argv);

}  // namespace tftf::cli
