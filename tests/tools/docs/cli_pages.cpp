// Sections of docs/cli.md: the table of commands, and the table of operations.
#include <algorithm>

#include "pages.h"
#include "tftf/command/help.h"
#include "tftf/transform/operation.h"

namespace tftf::docs {
namespace {

std::string option_table(const Command& command, const auto& wanted) {
  std::string text;
  const auto add = [&](const std::string& name, std::string_view help, bool required) {
    if (text.empty()) text = "| option | |\n|---|---|\n";
    text += "| " + cell(code(name)) + " | " + cell(help) + (required ? " **Required.**" : "") + " |\n";
  };
  for (const CommandOption& option : command.options)
    if (!option.group.empty() && wanted(option)) add(option_names(option), option.help, option.required);
  return text.empty() ? text : text + "\n";
}

std::string word_table(const Command& command) {
  std::string text;
  for (const CommandWord& word : command.info->words) {
    if (text.empty()) text = "| argument | |\n|---|---|\n";
    text += "| " + code(std::string(word.name) + (word.repeatable ? "..." : "")) + " | " + cell(word.help) +
            (word.required ? " **Required.**" : "") + " |\n";
  }
  return text.empty() ? text : text + "\n";
}

bool is_shared(const CommandOption& option, const Command& command) {
  return option.group == kGeneralGroup || (command.info->writes && option.group == kOutputGroup);
}

std::string command_section(const Command& command) {
  std::string text =
      "### tftf " + std::string(command.info->path) + "\n\n" + std::string(command.info->summary) + ".\n\n";
  text += word_table(command);
  text += option_table(command, [&](const CommandOption& option) { return !is_shared(option, command); });
  if (command.info->writes) text += "And the options of writing commands.\n\n";
  std::string examples;
  for (const CommandExample& example : command.info->examples) examples += std::string(example.line) + "\n";
  return examples.empty() ? text : text + "```\n" + examples + "```\n\n";
}

}  // namespace

std::string commands_section() {
  const Command& writing = *find_command("passthrough");
  std::string text = "\n## Options of every command\n\n";
  text += option_table(writing, [](const CommandOption& option) { return option.group == kGeneralGroup; });
  text += "## Options of writing commands\n\n";
  text += option_table(writing, [](const CommandOption& option) { return option.group == kOutputGroup; });
  text += "## Commands\n\n";
  for (const Command& command : all_commands())
    if (!command.info->path.empty()) text += command_section(command);
  return text;
}

std::string operations_section() {
  std::string text = "\n| operation | pipe of `run` | does | writes |\n|---|---|---|---|\n";
  for (const OperationInfo& info : all_operations()) {
    text += "| " + code(info.id) + " | " + (info.activator.empty() ? "" : code(info.activator)) + " | " +
            cell(info.summary) + " | " + cell(info.writes) + " |\n";
  }
  text += "\n";
  for (const OperationInfo& info : all_operations()) {
    text += "### " + std::string(info.title) + "\n\n| option | values | |\n|---|---|---|\n";
    for (const OptionInfo& option : info.options) {
      std::string values;
      for (const std::string_view choice : option.choices)
        values += (values.empty() ? "" : ", ") + code(choice);
      if (values.empty()) values = option_kind_name(option.kind);
      if (!option.unit.empty()) values += " (" + std::string(option.unit) + ")";
      std::string help(option.help);
      help += ".";
      if (!option.fallback.empty()) help += " Default " + code(option.fallback) + ".";
      if (option.required) help += " Required.";
      if (option.repeatable) help += " May be repeated.";
      if (option.name == info.bare) help += " In `run` bare values go here.";
      text +=
          "| " + code("--" + std::string(option.name)) + " | " + cell(values) + " | " + cell(help) + " |\n";
    }
    text += "\n";
  }
  return text;
}

}  // namespace tftf::docs
