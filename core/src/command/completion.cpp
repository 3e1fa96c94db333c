// Completion scripts for shells, made from the table of commands.
#include <algorithm>
#include <cctype>

#include "tftf/command/help.h"

namespace tftf {
namespace {

struct Choice {
  std::vector<std::string> names;  // "--dtype", "-i"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> values;  // known ones; empty: a file or any text
};

struct Node {
  std::string path;  // "colibri convert", empty for the program itself
  std::string description;
  std::vector<Choice> options;
  std::vector<Node> commands;
  std::vector<std::string> words;  // known ones of its first argument
  bool is_group = false;           // one of the commands, or of the words, has to follow
};

Node read_tree(const Command& command, Host host) {
  const CommandInfo& info = *command.info;
  Node node{std::string(info.path), std::string(info.summary), {}, {}, {}, false};
  for (const CommandOption& option : command.options) {
    if (option.group.empty() || (option.native && host != Host::kNative)) continue;
    Choice choice;
    choice.names.push_back("--" + std::string(option.name));
    if (option.letter != 0) choice.names.push_back(std::string("-") + option.letter);
    choice.description = option.help;
    choice.takes_value = option.values() > 0;
    const std::string_view shows = option.shows;
    choice.values.assign(option.choices.begin(), option.choices.end());
    if (choice.values.empty() && shows.find('|') != std::string_view::npos) {
      for (size_t at = 0; at <= shows.size();) {
        const size_t end = std::min(shows.find('|', at), shows.size());
        choice.values.emplace_back(shows.substr(at, end - at));
        at = end + 1;
      }
    }
    node.options.push_back(std::move(choice));
  }
  if (info.chain) {
    for (const OperationInfo& operation : all_operations()) {
      if (operation.activator.empty()) continue;
      node.options.push_back({{std::string(operation.activator)}, std::string(operation.summary), false, {}});
      for (const OptionInfo& option : operation.options) {
        const std::string name = "--" + std::string(option.name);
        bool known = option.ignored;
        for (const Choice& other : node.options) known = known || other.names[0] == name;
        if (known) continue;
        std::vector<std::string> values(option.choices.begin(), option.choices.end());
        node.options.push_back({{name}, std::string(option.help), option.values() > 0, std::move(values)});
      }
    }
  }
  for (const Command* nested : command.nested)
    if (!nested->info->native || host == Host::kNative) node.commands.push_back(read_tree(*nested, host));
  if (!info.words.empty()) node.words.assign(info.words[0].choices.begin(), info.words[0].choices.end());
  if (info.path == "help")
    for (const Command& other : all_commands())
      if (!other.info->path.empty() && (!other.info->native || host == Host::kNative))
        node.words.emplace_back(other.name());
  node.is_group = !node.words.empty() || (!node.commands.empty() && info.words.empty());
  return node;
}

// A command as the program that it is by another name (tftf-lint): paths begin behind it.
Node as_program(Node node, size_t skip) {
  node.path = node.path.size() > skip ? node.path.substr(skip + 1) : "";
  for (Node& command : node.commands) command = as_program(std::move(command), skip);
  return node;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In single quotes for any of the shells.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

void bash_cases(const Node& node, std::string& words, std::string& values) {
  std::vector<std::string> all = node.words;
  for (const Node& command : node.commands) all.push_back(command.path.substr(command.path.rfind(' ') + 1));
  for (const Choice& option : node.options) {
    all.insert(all.end(), option.names.begin(), option.names.end());
    for (const std::string& name : option.names) {
      if (!option.values.empty()) {
        values +=
            "    " + quoted(node.path + " " + name) + ") words=" + quoted(join(option.values)) + " ;;\n";
      } else if (option.takes_value) {
        values += "    " + quoted(node.path + " " + name) + ") COMPREPLY=(); return ;;\n";
      }
    }
  }
  words += "      " + quoted(node.path) + ") words=" + quoted(join(all)) +
           (node.is_group ? " group=yes" : "") + " ;;\n";
  for (const Node& command : node.commands) bash_cases(command, words, values);
}

std::string bash(const Node& root, const std::string& program) {
  std::string words, values, paths;
  bash_cases(root, words, values);
  const auto add_paths = [&paths](const Node& node, const auto& self) -> void {
    for (const Node& command : node.commands) {
      paths += (paths.empty() ? "" : "|") + quoted(command.path);
      self(command, self);
    }
  };
  add_paths(root, add_paths);
  // COMPREPLY empty: the shell completes file names (-o default).
  return "# bash completion of " + program + "\n_" + program +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path='' next "
         "words='' group='' i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    next=${path:+$path }${COMP_WORDS[i]}\n"
         "    case $next in\n"
         "      " +
         paths +
         ") path=$next ;;\n      *) break ;;\n    esac\n  done\n"
         "  case \"$path $previous\" in\n" +
         values + "    *)\n      case $path in\n" + words +
         "      esac\n      if [[ $current != -* && -n $path && -z $group ]]; then COMPREPLY=(); return; fi "
         ";;\n  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
         "complete -o default -o bashdefault -F _" +
         program + " " + program + "\n";
}

std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_function(const std::string& program, const std::string& path) {
  std::string name = "_" + program;
  for (const char c : path.empty() ? "" : " " + path) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

void zsh_functions(const Node& node, const std::string& program, std::string& text) {
  text += zsh_function(program, node.path) + "() {\n";
  std::string arguments;
  for (const Choice& option : node.options) {
    std::string value;
    if (!option.values.empty()) {
      value = ":value:(" + join(option.values) + ")";
    } else if (option.takes_value) {
      value = ":value:_files";
    }
    for (const std::string& name : option.names) {
      arguments += " \\\n    " + quoted("*" + name + "[" + zsh_text(option.description) + "]" + value);
    }
  }
  if (node.commands.empty()) {
    const std::string rest = node.words.empty() ? "'*:file:_files'" : "'*:word:(" + join(node.words) + ")'";
    text += "  _arguments" + arguments + " \\\n    " + rest + "\n}\n";
    return;
  }
  text += "  local state line\n  _arguments -C" + arguments +
          " \\\n    '1:command:->command' '*::argument:->argument'\n"
          "  case $state in\n    command)\n      local -a commands=(\n";
  for (const Node& command : node.commands) {
    text += "        " +
            quoted(zsh_text(command.path.substr(command.path.rfind(' ') + 1)) + ":" + command.description) +
            "\n";
  }
  text += "      )\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const Node& command : node.commands) {
    text += "        " + command.path.substr(command.path.rfind(' ') + 1) + ") " +
            zsh_function(program, command.path) + " ;;\n";
  }
  text += "      esac ;;\n  esac\n}\n";
  for (const Node& command : node.commands) zsh_functions(command, program, text);
}

std::string zsh(const Node& root, const std::string& program) {
  std::string text;
  zsh_functions(root, program, text);
  return text + "compdef _" + program + " " + program + "\n";
}

void fish_lines(const Node& node, const std::string& program, std::string& text) {
  // A condition of fish: which commands stand on the line, and that none of the node's own does yet.
  std::string condition;
  for (size_t at = 0; !node.path.empty() && at != std::string::npos;) {
    const size_t end = node.path.find(' ', at);
    condition += (condition.empty() ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") +
                 node.path.substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? end : end + 1;
  }
  std::string names;
  for (const Node& command : node.commands) names += " " + command.path.substr(command.path.rfind(' ') + 1);
  const std::string here = condition.empty() ? "__fish_use_subcommand" : condition;
  for (const Node& command : node.commands) {
    const std::string fresh =
        condition.empty() ? here : condition + "; and not __fish_seen_subcommand_from" + names;
    text += "complete -c " + program + " -f -n " + quoted(fresh) + " -a " +
            command.path.substr(command.path.rfind(' ') + 1) + " -d " + quoted(command.description) + "\n";
  }
  if (!node.words.empty())
    text += "complete -c " + program + " -f -n " + quoted(here) + " -a " + quoted(join(node.words)) + "\n";
  for (const Choice& option : node.options) {
    text += "complete -c " + program + " -n " + quoted(here);
    for (const std::string& name : option.names) {
      text += name.substr(0, 2) == "--" ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes_value) text += " -r";
    if (!option.values.empty()) text += " -f -a " + quoted(join(option.values));
    text += " -d " + quoted(option.description) + "\n";
  }
  for (const Node& command : node.commands) fish_lines(command, program, text);
}

std::string fish(const Node& root, const std::string& program) {
  std::string text;
  fish_lines(root, program, text);
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell, Host host) {
  const Node root = read_tree(*find_command(""), host);
  const Node lint = as_program(read_tree(*find_command("lint"), host), std::string_view("lint").size());
  if (shell == "bash") return bash(root, "tftf") + bash(lint, "tftf-lint");
  if (shell == "zsh") return "#compdef tftf tftf-lint\n" + zsh(root, "tftf") + zsh(lint, "tftf-lint");
  return fish(root, "tftf") + fish(lint, "tftf-lint");
}

}  // namespace tftf
