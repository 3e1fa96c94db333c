// The help of commands.
#include "tftf/command/help.h"

#include <algorithm>

#include "command/mistakes.h"
#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kNameColumn = 34;

// Words of `text` in lines that begin at `indent` behind what stands there already (`used` columns).
std::string wrapped(std::string_view text, size_t indent, size_t used) {
  std::string out;
  size_t column = used;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t width = to_size(count_code_points(word));
    if (column > indent && column + 1 + width > kHelpWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
    at = end + 1;
  }
  return out;
}

std::string entry(const std::string& name, std::string_view text) {
  const std::string first = "  " + name;
  if (first.size() + 2 > kNameColumn)
    return first + "\n" + std::string(kNameColumn, ' ') + wrapped(text, kNameColumn, kNameColumn) + "\n";
  return first + std::string(kNameColumn - first.size(), ' ') + wrapped(text, kNameColumn, kNameColumn) +
         "\n";
}

std::string word_text(const CommandWord& word) {
  std::string text(word.name);
  if (word.repeatable) text += "...";
  return word.required ? text : "[" + text + "]";
}

std::string usage_line(Program program, Host host, const Command& command) {
  std::string text = "Usage: " + command::called(program, command);
  for (const CommandOption& option : command.options) {
    if (!option.required || (option.native && host != Host::kNative)) continue;
    text += option.letter != 0 ? std::string(" -") + option.letter : " --" + std::string(option.name);
    if (!option.shows.empty()) text += " " + std::string(option.shows);
  }
  if (!command.nested.empty() && command.info->words.empty()) {
    text += command.info->path.empty() ? " COMMAND" : " TOOL";
  } else {
    for (const CommandWord& word : command.info->words) text += " " + word_text(word);
  }
  if (command.info->chain) text += " [OPERATION...]";
  return text + " [OPTIONS]\n";
}

// "[--include] GLOB": an option in a section of a chain.
std::string chain_option(const OperationInfo& info, const OptionInfo& option) {
  const bool bare = option.name == info.bare;
  std::string text = bare ? "[--" + std::string(option.name) + "]" : "--" + std::string(option.name);
  const std::string value = value_name(option);
  if (!value.empty()) text += " " + value;
  if (option.repeatable) text += "...";
  return option.required ? text : "[" + text + "]";
}

std::string chain_text() {
  std::string text = "Operations, in the order in which they are run; each may come more than once:\n";
  for (const OperationInfo& info : all_operations()) {
    if (info.activator.empty()) continue;
    std::string line = "  " + std::string(info.activator);
    size_t column = line.size();
    for (const OptionInfo& option : info.options) {
      if (option.ignored) continue;
      const std::string one = chain_option(info, option);
      if (column + 1 + one.size() > kHelpWidth) {
        line += "\n     ";
        column = 5;
      }
      line += " " + one;
      column += 1 + one.size();
    }
    text += line + "\n      " + wrapped(std::string(info.summary) + ".", 6, 6) + "\n";
  }
  return text + "\n";
}

std::string groups_text(Host host, const Command& command) {
  std::vector<std::string_view> groups;
  for (const CommandOption& option : command.options) {
    if (option.group.empty() || std::find(groups.begin(), groups.end(), option.group) != groups.end())
      continue;
    groups.push_back(option.group);
  }
  std::stable_partition(groups.begin(), groups.end(), [](std::string_view g) { return g != kGeneralGroup; });
  std::string text;
  for (const std::string_view group : groups) {
    std::string lines;
    for (const CommandOption& option : command.options) {
      if (option.group != group || (option.native && host != Host::kNative)) continue;
      lines += entry(option_names(option), option.help);
    }
    if (!lines.empty()) text += std::string(group) + ":\n" + lines + "\n";
  }
  return text;
}

std::string examples_text(const CommandInfo& info) {
  std::string text;
  size_t width = 0;
  for (const CommandExample& example : info.examples)
    if (!example.remark.empty() && example.line.size() <= 62) width = std::max(width, example.line.size());
  for (const CommandExample& example : info.examples) {
    text += "  " + std::string(example.line);
    if (!example.remark.empty()) {
      const size_t used = example.line.size();
      text += used <= width ? std::string(width - used + 2, ' ') : "\n" + std::string(width + 4, ' ');
      text += "# " + std::string(example.remark);
    }
    text += "\n";
  }
  return text.empty() ? text : "Examples:\n" + text + "\n";
}

}  // namespace

std::string option_names(const CommandOption& option) {
  std::string text = option.letter != 0 ? std::string("-") + option.letter + ", " : "";
  text += "--" + std::string(option.name);
  return option.shows.empty() ? text : text + " " + std::string(option.shows);
}

std::string help_text(Program program, Host host, const Command& command) {
  const CommandInfo& info = *command.info;
  std::string text =
      wrapped(std::string(info.summary) + ".", 0, 0) + "\n\n" + usage_line(program, host, command) + "\n";
  if (!info.about.empty()) text += wrapped(info.about, 0, 0) + "\n\n";
  std::string words;
  for (const CommandWord& word : info.words) words += entry(std::string(word.name), word.help);
  if (!words.empty()) text += words + "\n";
  if (info.chain) text += chain_text();
  if (!command.nested.empty()) {
    text += info.path == "colibri" ? "Tools:\n" : "Commands:\n";
    for (const Command* nested : command.nested)
      if (!nested->info->native || host == Host::kNative)
        text += entry(std::string(nested->name()), nested->info->summary);
    text += "\n";
  }
  text += groups_text(host, command) + examples_text(info);
  if (!info.status.empty()) text += wrapped("Exit status: " + std::string(info.status), 0, 0) + "\n";
  if (!command.nested.empty())
    text += (info.status.empty() ? "" : "\n") + command::called(program, command) +
            (info.path == "colibri" ? " TOOL" : " COMMAND") + " --help tells more.\n";
  while (text.size() > 1 && text[text.size() - 2] == '\n') text.pop_back();
  return text;
}

}  // namespace tftf
