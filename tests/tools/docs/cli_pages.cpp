// Sections of docs/cli.md: the commands as CLI11 knows them, and the table of operations.
#include <algorithm>

#include "commands.h"
#include "options.h"
#include "pages.h"
#include "tftf/transform/operation.h"

namespace tftf::docs {
namespace {

std::string names_of(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (text.empty()) text = option.get_name(true);
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() > 0 && !type.empty() && option.nonpositional()) text += " " + type;
  return code(text);
}

std::string option_table(const CLI::App& command, const auto& wanted) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || !wanted(*option)) continue;
    if (text.empty()) text = "| option | |\n|---|---|\n";
    text += "| " + cell(names_of(*option)) + " | " + cell(option->get_description()) +
            (option->get_required() ? " **Required.**" : "") + " |\n";
  }
  return text.empty() ? text : text + "\n";
}

bool is_shared(const CLI::Option& option) {
  return option.get_group() == cli::kGeneralGroup || option.get_group() == cli::kOutputGroup;
}

void add_command(const CLI::App& command, const std::string& path, std::string& text) {
  text += "### " + path + "\n\n" + command.get_description() + ".\n\n";
  text += option_table(command, [](const CLI::Option& option) { return !is_shared(option); });
  const auto options = command.get_options();
  const bool writes = std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_group() == cli::kOutputGroup && option->check_lname("dry-run");
  });
  text += writes ? "And the options of writing commands.\n\n" : "";
  for (const CLI::App* nested : command.get_subcommands(nullptr)) {
    if (!nested->get_group().empty()) add_command(*nested, path + " " + nested->get_name(), text);
  }
}

}  // namespace

std::string commands_section() {
  CLI::App app;
  cli::Session session("tftf");
  cli::add_commands(app, session);
  std::string text = "\n## Options of every command\n\n";
  const CLI::App* writing = app.get_subcommand("passthrough");
  text += option_table(*writing,
                       [](const CLI::Option& option) { return option.get_group() == cli::kGeneralGroup; });
  text += "## Options of writing commands\n\n";
  text += option_table(*writing,
                       [](const CLI::Option& option) { return option.get_group() == cli::kOutputGroup; });
  text += "## Commands\n\n";
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) add_command(*command, "tftf " + command->get_name(), text);
  }
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
      if (!option.chain_choices.empty()) {
        values += "; in `run`";
        for (const std::string_view choice : option.chain_choices) values += " " + code(choice);
      }
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
