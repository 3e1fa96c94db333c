#include <algorithm>

#include "commands.h"
#include "options.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

const CLI::Option* own_option(const CLI::App& command, const std::string& token) {
  for (const CLI::Option* option : command.get_options()) {
    if (token.size() > 2 && option->check_lname(token.substr(2))) return option;
  }
  return nullptr;
}

bool is_activator(const std::string& token) {
  const auto operations = all_operations();
  return std::any_of(operations.begin(), operations.end(), [&](const OperationInfo& info) {
    return !info.activator.empty() && info.activator == token;
  });
}

// Takes the chain out of the arguments (spec tftf 1.4): the command's own options are recognised anywhere, once an
// activator was seen only by their exact long names and as -i, -o and -v.
void take_chain(const CLI::App& command, std::vector<std::string>& arguments,
                std::vector<std::string>& chain) {
  std::vector<std::string> own{arguments[0]};
  bool active = false;
  for (size_t at = 1; at < arguments.size(); ++at) {
    const std::string& token = arguments[at];
    if (token == "--") {  // what follows is the chain's alone
      chain.insert(chain.end(), arguments.begin() + static_cast<ptrdiff_t>(at) + 1, arguments.end());
      break;
    }
    active = active || is_activator(token);
    const bool is_long = token.substr(0, 2) == "--";
    const CLI::Option* option = nullptr;
    if (is_long) {
      option = own_option(command, token.substr(0, token.find('=')));
    } else if (token == "-i" || token == "-o" || token == "-v") {
      option = command.get_option_no_throw(token);
    } else if (!active && token.size() > 1 && token[0] == '-') {
      // Before the chain: short options as anywhere, with their value attached or not.
      option = command.get_option_no_throw(token.substr(0, 2));
    }
    if (option == nullptr) {
      chain.push_back(token);
      continue;
    }
    own.push_back(token);
    const bool attached = is_long ? token.find('=') != std::string::npos : token.size() > 2;
    if (!attached && option->get_items_expected_max() > 0 && at + 1 < arguments.size()) {
      own.push_back(arguments[++at]);
    }
  }
  arguments = std::move(own);
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  struct Options {
    std::string input;
    std::vector<std::string> chain;
    WriteOptions write;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "run", "Run a model through a chain of pipes in one pass", [&session, options] {
        Result<std::vector<Operation>> operations = parse_chain(options->chain);
        if (!operations) return session.fail(operations.error());
        return run_transform(session, "run", options->input, *std::move(operations), options->write);
      });
  command->add_option("-i,--input", options->input, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_write_options(*command, options->write);
  std::string footer = "Pipes, in the order they are run; each may come more than once:";
  for (const OperationInfo& info : all_operations()) {
    if (info.activator.empty()) continue;
    footer += "\n  " + std::string(info.activator);
    for (const OptionInfo& option : info.options) {
      if (option.ignored) continue;
      const auto& choices = option.chain_choices.empty() ? option.choices : option.chain_choices;
      std::string value;
      for (const std::string_view choice : choices) value += (value.empty() ? "" : "|") + std::string(choice);
      if (value.empty() && option.kind == OptionKind::kRule) value = "PATTERN REPLACEMENT";
      if (value.empty() && option.kind == OptionKind::kGlob) value = "GLOB";
      if (value.empty() && option.kind == OptionKind::kInteger) value = "N";
      if (value.empty() && option.kind == OptionKind::kNumber) value = "NUMBER";
      if (value.empty() && option.kind == OptionKind::kPath) value = "PATH";
      if (value.empty() && option.kind == OptionKind::kText) value = "TEXT";
      const bool bare = option.name == info.bare;
      std::string text = bare ? "[--" + std::string(option.name) + "]" : "--" + std::string(option.name);
      if (!value.empty()) text += " " + value;
      footer += option.required ? " " + text : " [" + text + "]";
      if (option.repeatable) footer += "...";
    }
    footer += "\n      " + std::string(info.summary) + ".";
  }
  command->footer(footer);
  session.before_parse = [options, command](CLI::App&, std::vector<std::string>& arguments) {
    if (arguments[0] == "run") take_chain(*command, arguments, options->chain);
  };
}

}  // namespace tftf::cli
