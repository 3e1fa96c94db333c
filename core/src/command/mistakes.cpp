#include "command/mistakes.h"

#include <algorithm>
#include <array>

#include "command/tables.h"
#include "tftf/base/escape.h"

namespace tftf::command {
namespace {

// Spellings of one thing in different commands: who knows one is told the other.
struct Role {
  std::string_view what;
  std::array<std::string_view, 5> spellings;
};
constexpr Role kRoles[] = {
    {"the model", {"-i", "--input", "-b", "--base", "--indir"}},
    {"the output", {"-o", "--output", "--outdir", "--out", "--output-dir"}},
    {"the adapter", {"-a", "--adapter", "--lora", "--merge-lora", "--adapter-path"}},
};

bool among(const Role& role, std::string_view spelling) {
  return std::find(role.spellings.begin(), role.spellings.end(), spelling) != role.spellings.end();
}

std::string long_name(const CommandOption& option) { return "--" + std::string(option.name); }

// "-b MODEL (--base)".
std::string shown_option(const CommandOption& option) {
  const std::string value = option.shows.empty() ? "" : " " + std::string(option.shows);
  if (option.letter == 0) return long_name(option) + value;
  return std::string("-") + option.letter + value + " (" + long_name(option) + ")";
}

std::string role_hint(Program program, const Command& command, std::string_view given) {
  for (const Role& role : kRoles) {
    if (!among(role, given)) continue;
    for (const CommandOption& option : command.options) {
      const bool same = among(role, long_name(option)) ||
                        (option.letter != 0 && among(role, std::string("-") + option.letter));
      if (same) return "; here " + std::string(role.what) + " is given by " + shown_option(option);
    }
    const auto words = command.info->words;
    if (&role == &kRoles[0] && !words.empty() && words[0].choices.empty())
      return "; here " + std::string(role.what) + " is given as it is: " + called(program, command) + " " +
             std::string(words[0].name);
  }
  return "";
}

}  // namespace

std::string called(Program program, const Command& command) {
  std::string_view path = command.info->path;
  if (program == Program::kLint) path.remove_prefix(std::min(path.size(), std::string_view("lint").size()));
  std::string text(program_name(program));
  if (!path.empty() && path[0] != ' ') text += ' ';
  return text + std::string(path);
}

Error mistake(Program program, const Command& command, std::string what) {
  while (!what.empty() && what.back() == '.') what.pop_back();
  return {.code = ErrorCode::kUsage, .message = what + " (see " + called(program, command) + " --help)."};
}

std::string unknown_option(Program program, const Command& command, std::string_view given) {
  const std::string text = "An argument was not expected: " + quote_name(given);
  if (command.info->path.empty()) {
    for (const CommandOption& option : general_options())
      if (given == long_name(option) || (option.letter != 0 && given == std::string("-") + option.letter))
        return text + "; options stand behind the command";
  }
  if (const std::string hint = role_hint(program, command, given); !hint.empty()) return text + hint;
  std::vector<std::string> known;
  for (const CommandOption& option : command.options)
    if (!option.group.empty()) known.push_back(long_name(option));
  // "-dtype" lacks a dash.
  const bool single = given.size() > 2 && given[1] != '-';
  const std::string near = nearest_word((single ? "-" : "") + std::string(given), known);
  if (!near.empty()) return text + "; did you mean " + near + "?";
  if (given.size() == 2) return text;
  std::string owners;
  for (const Command& other : all_commands()) {
    const CommandOption* option = given.size() > 2 ? other.option(given.substr(2)) : nullptr;
    if (option == nullptr || option->group.empty() || other.info->path.empty()) continue;
    owners += (owners.empty() ? "" : ", ") + std::string(other.info->path);
  }
  return owners.empty() ? text : text + "; it is an option of " + owners;
}

std::string unknown_command(const Command& above, std::string_view word) {
  const std::string text =
      "There is no " +
      (above.info->path.empty() ? std::string("command ") : std::string(above.info->path) + " tool ") +
      quote_name(word);
  std::vector<std::string> names;
  for (const Command* command : above.nested) names.emplace_back(command->name());
  if (const std::string near = nearest_word(word, names); !near.empty())
    return text + "; did you mean " + near + "?";
  for (const Command& command : all_commands())
    if (!command.info->path.empty() && command.name() == word)
      return text + "; did you mean " + std::string(command.info->path) + "?";
  return text;
}

std::string nearly_chain(const Command& command, const OperationInfo* section, std::string_view word) {
  if (word.substr(0, 2) != "--") return "";
  std::vector<std::string> known;
  for (const OperationInfo& info : all_operations()) {
    if (info.activator.empty()) continue;
    if (info.option(word.substr(2)) != nullptr) return "";  // of another operation: the chain says whose
    known.emplace_back(info.activator);
  }
  if (section != nullptr)
    for (const OptionInfo& option : section->options)
      if (!option.ignored) known.push_back("--" + std::string(option.name));
  for (const CommandOption& option : command.options)
    if (!option.group.empty()) known.push_back(long_name(option));
  const std::string near = nearest_word(word, known);
  return near.empty() ? ""
                      : "An argument was not expected: " + quote_name(word) + "; did you mean " + near + "?";
}

}  // namespace tftf::command
