// The table of commands put together: rows, options of the operations that they take, options that all have.
#include "tftf/command/command.h"

#include <algorithm>
#include <deque>

#include "command/tables.h"

namespace tftf {
namespace {

std::string choices_text(const OptionInfo& option, std::string_view between) {
  std::string text;
  for (const std::string_view choice : option.choices)
    text += (text.empty() ? "" : std::string(between)) + std::string(choice);
  return text;
}

}  // namespace

std::string value_name(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::kChoice: {
      constexpr size_t kLongest = 60;
      std::string text = choices_text(option, "|");
      return text.size() <= kLongest ? text : "NAME";
    }
    case OptionKind::kInteger:
      return "N";
    case OptionKind::kSize:
      return "SIZE";
    case OptionKind::kGlob:
      return "GLOB";
    case OptionKind::kRule:
      return "PATTERN REPLACEMENT";
    case OptionKind::kNumber:
      return "NUMBER";
    case OptionKind::kPath:
      return "PATH";
    case OptionKind::kFlag:
      return "";
    case OptionKind::kText:
      break;
  }
  return "TEXT";
}

namespace {

class CommandTable {
 public:
  CommandTable() {
    using namespace command;
    const auto programs = program_commands();
    add(programs.first(1));
    add(transform_commands());
    add(inspection_commands());
    add(adapter_commands());
    add(colibri_commands());
    add(programs.subspan(1));
    for (Command& command : commands_) nest(command);
  }
  std::span<const Command> commands() const { return commands_; }

 private:
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  void add(std::span<const CommandInfo> rows) {
    for (const CommandInfo& info : rows) {
      Command& command = commands_.emplace_back();
      command.info = &info;
      const auto append = [&](std::span<const CommandOption> options) {
        command.options.insert(command.options.end(), options.begin(), options.end());
      };
      append(info.options);
      for (const CommandOperation& use : info.operations) add_operation(command, use);
      if (info.writes) append(command::writing_options());
      if (info.common) append(command::general_options());
    }
  }

  void add_operation(Command& command, const CommandOperation& use) {
    const OperationInfo& operation = *find_operation(use.id);
    for (const OptionInfo& option : operation.options) {
      CommandOption added{.name = option.name, .kind = option.kind};
      for (const CommandSpelling& spelling : use.spellings) {
        if (spelling.option != option.name) continue;
        added.name = spelling.name;
        added.letter = spelling.letter;
      }
      if (added.name.empty()) continue;
      added.shows = keep(value_name(option));
      std::string help(option.help);
      if (added.shows == "NAME" && !option.choices.empty()) help += ": " + choices_text(option, ", ");
      if (!option.fallback.empty()) help += " (" + std::string(option.fallback) + ")";
      added.help = keep(std::move(help));
      added.group = option.ignored ? std::string_view() : operation.title;
      added.required = option.required && !use.optional;
      added.repeatable = option.repeatable;
      added.choices = option.choices;
      added.operation = operation.id;
      added.of = &option;
      command.options.push_back(added);
    }
  }

  void nest(Command& command) {
    const std::string_view above = command.info->path;
    for (const Command& other : commands_) {
      const std::string_view path = other.info->path;
      const size_t last = path.rfind(' ');
      const std::string_view parent = last == std::string_view::npos ? "" : path.substr(0, last);
      if (!path.empty() && parent == above) command.nested.push_back(&other);
    }
  }

  std::deque<std::string> texts_;
  std::vector<Command> commands_;
};

}  // namespace

std::string_view Command::name() const {
  const size_t last = info->path.rfind(' ');
  return last == std::string_view::npos ? info->path : info->path.substr(last + 1);
}

const CommandOption* Command::option(std::string_view wanted) const {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const CommandOption& one) { return one.name == wanted; });
  return found == options.end() ? nullptr : &*found;
}

const CommandOption* Command::option(char letter) const {
  const auto found = std::find_if(options.begin(), options.end(), [&](const CommandOption& one) {
    return one.letter != 0 && one.letter == letter;
  });
  return found == options.end() ? nullptr : &*found;
}

std::span<const Command> all_commands() {
  static const CommandTable table;
  return table.commands();
}

const Command* find_command(std::string_view path) {
  const std::span<const Command> commands = all_commands();
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& one) { return one.info->path == path; });
  return found == commands.end() ? nullptr : &*found;
}

}  // namespace tftf
