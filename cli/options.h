// Options that several commands share, added to a command the same way everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "session.h"

namespace tftf::cli {

// Groups under which --help lists options.
inline constexpr const char* kOutputGroup = "Output";
inline constexpr const char* kGeneralGroup = "General";

// Options of every writing command (spec cli 1).
struct WriteOptions {
  std::string output;
  bool dry_run = false;
  uint64_t max_shard_size = uint64_t{20} << 30;
  bool overwrite = false;
  bool no_resume = false;
  bool single = false;
  bool sharded = false;
  bool align = false;
  std::optional<uint64_t> tile_size;  // for tests
};

// Prints the help of a program and of all its commands: groups in the order of their options, General last.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// A command: CLI11's subcommand with the common options, which calls `run` when it was chosen.
CLI::App* add_command(CLI::App& parent, Session& session, const std::string& name,
                      const std::string& description, std::function<int()> run);
void add_common_options(CLI::App& command, Session& session);
// -o and the rest of WriteOptions.
void add_write_options(CLI::App& command, WriteOptions& options);

// A size with or without suffix (base/size_text.h).
CLI::Option* add_size(CLI::App& app, const std::string& name, std::optional<uint64_t>& to,
                      const std::string& description);
// A text that may be given again and again; values are taken as they are, one per name.
CLI::Option* add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& description);

}  // namespace tftf::cli
