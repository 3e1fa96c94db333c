// The commands of the programs as one table: names, options and how they are spelt, operations, help. The native command
// line and that of Node.js read it, and so do help, completion and docs/cli.md.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/transform/operation.h"

namespace tftf {

// Where a command line runs. Node.js has one thread and one set of kernels, and continues nothing.
enum class Host : uint8_t { kNative, kNode };

// Groups under which a help lists options.
inline constexpr std::string_view kOwnGroup = "Options";
inline constexpr std::string_view kOutputGroup = "Output";
inline constexpr std::string_view kGeneralGroup = "General";

// One option as a command spells it.
struct CommandOption {
  std::string_view name{};  // "max-shard-size", without dashes
  char letter = 0;          // 'o' of "-o"; 0: it has none
  OptionKind kind = OptionKind::kText;
  std::string_view shows{};  // what its values are called, "SIZE"; nothing for a flag
  std::string_view help{};
  std::string_view group = kOwnGroup;  // empty: no help lists it
  bool required = false;
  bool repeatable = false;                               // else it is given once at most
  bool native = false;                                   // Host::kNative alone has it
  std::span<const std::string_view> choices{};           // of kChoice: exactly these
  uint64_t least = 1;                                    // of kInteger
  uint64_t most = std::numeric_limits<uint32_t>::max();  // of kInteger
  std::string_view same_as{};  // this one is another spelling, or the opposite, of that option
  std::string (*check)(std::string_view value) =
      nullptr;                     // what is wrong with a value, "is not ..."; empty: nothing
  std::string_view operation{};    // id of the operation that it belongs to; empty: the command's own
  const OptionInfo* of = nullptr;  // in that operation

  uint32_t values() const { return kind == OptionKind::kFlag ? 0 : kind == OptionKind::kRule ? 2 : 1; }
  // Options that exclude each other when given twice have the same.
  std::string_view identity() const { return same_as.empty() ? name : same_as; }
};

// An argument without dashes.
struct CommandWord {
  std::string_view name;  // "MODEL"
  std::string_view help;
  bool required = true;
  bool repeatable = false;
  std::span<const std::string_view> choices{};  // exactly these; empty: any text
};

// How a command calls an option of an operation where that is not its own name; no name: it does not have it.
struct CommandSpelling {
  std::string_view option;
  std::string_view name;
  char letter = 0;
};

// An operation whose options a command takes.
struct CommandOperation {
  std::string_view id;
  bool optional = false;  // only meant when one of its options is given
  std::span<const CommandSpelling> spellings{};
};

struct CommandExample {
  std::string_view line;
  std::string_view remark{};
};

struct CommandInfo {
  std::string_view path;  // "colibri resolve"; empty: the program itself
  std::string_view summary;
  std::span<const CommandWord> words{};
  std::span<const CommandOption> options{};
  std::span<const CommandOperation> operations{};  // in the order in which they are run
  bool writes = false;                             // has the options of writing commands
  bool chain = false;                              // takes a chain of operations (transform/operation.h)
  bool native = false;                             // Host::kNative alone has it
  bool common = true;                              // has the options of every command
  std::string_view about{};
  std::span<const CommandExample> examples{};
  std::string_view status{};  // what its exit statuses say
};

// A command with all its options: its own, those of its operations, of writing commands, of every command.
struct Command {
  const CommandInfo* info = nullptr;
  std::vector<CommandOption> options{};
  std::vector<const Command*> nested{};  // `colibri`, `lint`: commands below it

  std::string_view name() const;  // the last word of its path
  const CommandOption* option(std::string_view name) const;
  const CommandOption* option(char letter) const;
};

// What the values of an operation's option are called: "SIZE", "bash|zsh"; empty for a flag.
std::string value_name(const OptionInfo& option);

// In the order in which help lists them; the program itself first.
std::span<const Command> all_commands();
const Command* find_command(std::string_view path);

}  // namespace tftf
