// A command line read by the table of commands.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/command/command.h"

namespace tftf {

// `tftf`, or `tftf-lint`, which is the command `lint` by itself.
enum class Program : uint8_t { kTftf, kLint };
std::string_view program_name(Program program);

struct CommandLine {
  struct Given {
    const CommandOption* option = nullptr;
    std::vector<std::string> values{};  // CommandOption::values() of them
    size_t at = 0;                      // the argument that names it
  };
  enum class Wish : uint8_t { kRun, kHelp, kVersion };

  Wish wish = Wish::kRun;
  const Command* command = nullptr;
  std::vector<Given> options{};  // in the order given; checked
  std::vector<std::string> words{};
  // What the command does to a model, in order, choices spelt as in the table. An operation whose adapter a command finds
  // by itself (merge-fsdp-lora) lacks that option.
  std::vector<Operation> operations{};

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The last one of that name, or null.
  const Given* find(std::string_view name) const;
  // Its value; empty when it is not given.
  std::string value(std::string_view name) const;
  std::vector<std::string> values(std::string_view name) const;
  // Of kInteger and kSize options.
  std::optional<uint64_t> number(std::string_view name) const;
};

// Reads the arguments of a program. Options may stand anywhere behind their command, "--name VALUE", "--name=VALUE",
// "-n VALUE", "-nVALUE", "-qv"; what follows "--" are words. An option takes its values whatever they look like. Errors:
// kUsage, one sentence that says what was probably meant and where to read more.
Result<CommandLine> read_command_line(Program program, Host host, std::span<const std::string> arguments);

// A word as a shell reads it back: big model is 'big model'. What must not reach a terminal is escaped.
std::string shell_quoted(std::string_view word);

// The candidate that a mistyped word probably means; empty: none of them is near.
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace tftf
