// Reads command lines by the table of commands.
#include "tftf/command/command_line.h"

#include <algorithm>

#include "command/agreement.h"
#include "command/mistakes.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

using command::mistake;

// What is wrong with a value of an option, without the option's name; empty: nothing.
std::string wrong_value(const CommandOption& option, const std::string& value) {
  const std::string is = "is " + quote_name(value) + ", ";
  switch (option.kind) {
    case OptionKind::kInteger: {
      const std::optional<uint64_t> number = json_unsigned(value);
      if (number && *number >= option.least && *number <= option.most) return "";
      std::string range = "a whole number from " + std::to_string(option.least);
      if (option.most <= 1'000'000) range += " to " + std::to_string(option.most);
      return is + "not " + range;
    }
    case OptionKind::kSize: {
      const Result<uint64_t> size = parse_size(value);
      if (!size) return is + "which is no size: bytes, or a number with a suffix such as 5GB or 512MiB";
      return *size < option.least ? is + "where some bytes have to fit" : "";
    }
    case OptionKind::kNumber: {
      const std::optional<double> number = parse_number(value);
      return number && *number >= 0 ? "" : is + "not a number from 0 on";
    }
    case OptionKind::kChoice: {
      // Those of operations are spelt in several ways, and checked with them.
      const auto& choices = option.choices;
      if (option.of != nullptr || std::find(choices.begin(), choices.end(), value) != choices.end()) break;
      std::string known;
      for (const std::string_view choice : choices)
        known += (known.empty() ? "" : ", ") + std::string(choice);
      return is + "none of " + known;
    }
    default:
      break;
  }
  if (option.check == nullptr) return "";
  const std::string complaint = option.check(value);
  return complaint.empty() ? "" : is + (complaint.rfind("is ", 0) == 0 ? "which " : "") + complaint;
}

class LineReader {
 public:
  LineReader(Program program, Host host, std::span<const std::string> arguments)
      : program_(program), host_(host), arguments_(arguments) {
    line_.command = find_command(program == Program::kLint ? "lint" : "");
  }

  Result<CommandLine> read() {
    if (program_ == Program::kTftf && arguments_.empty()) line_.wish = CommandLine::Wish::kHelp;
    bool options_ended = false;
    while (at_ < arguments_.size() && line_.wish == CommandLine::Wish::kRun) {
      const std::string& token = arguments_[at_];
      if (command().info->chain) {
        TFTF_TRY(take_of_chain());
      } else if (!options_ended && token == "--") {
        options_ended = true;
        ++at_;
      } else if (!options_ended && token.size() > 1 && token[0] == '-') {
        TFTF_TRY(take_option());
      } else {
        TFTF_TRY(take_word(options_ended));
      }
    }
    if (line_.wish != CommandLine::Wish::kRun) return std::move(line_);
    if (command().info->path == "version") line_.wish = CommandLine::Wish::kVersion;
    if (command().info->path == "help") return topic();
    TFTF_TRY(finish());
    return std::move(line_);
  }

 private:
  const Command& command() const { return *line_.command; }
  Error wrong(std::string what) const { return mistake(program_, command(), std::move(what)); }

  Result<void> take_word(bool options_ended) {
    const std::string& word = arguments_[at_];
    const bool group = !command().nested.empty() && command().info->words.empty();
    if (!command().nested.empty() && line_.words.empty() && !options_ended) {
      for (const Command* nested : command().nested) {
        if (nested->name() != word) continue;
        ++at_;
        return enter(*nested);
      }
    }
    if (group) return wrong(command::unknown_command(command(), word));
    const auto words = command().info->words;
    const bool last_repeats = !words.empty() && words.back().repeatable;
    if (line_.words.size() >= words.size() && !last_repeats)
      return wrong("An argument was not expected: " + quote_name(word));
    const CommandWord& meant = words[std::min(line_.words.size(), words.size() - 1)];
    const auto& choices = meant.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), word) == choices.end()) {
      std::string known;
      for (const std::string_view choice : choices)
        known += (known.empty() ? "" : ", ") + std::string(choice);
      return wrong(std::string(meant.name) + " is " + quote_name(word) + ", which is not one of " + known);
    }
    line_.words.push_back(word);
    ++at_;
    return {};
  }

  // Options before the name of a nested command are options of that one.
  Result<void> enter(const Command& nested) {
    const Command& above = command();
    if (nested.info->native && host_ != Host::kNative)
      return wrong(std::string(nested.info->path) + " is a command of the native program alone");
    line_.command = &nested;
    for (CommandLine::Given& given : line_.options) {
      const CommandOption* option = nested.option(given.option->name);
      if (option == nullptr)
        return wrong("--" + std::string(given.option->name) + " is an option of " +
                     command::called(program_, above) + " and none of " + std::string(nested.name()));
      given.option = option;
    }
    return {};
  }

  Result<void> take_option() {
    const std::string& token = arguments_[at_];
    const bool is_long = token[1] == '-';
    const size_t equals = is_long ? token.find('=') : std::string::npos;
    const std::string spelling = is_long ? token.substr(0, equals) : token.substr(0, 2);
    const CommandOption* option =
        is_long ? command().option(std::string_view(spelling).substr(2)) : command().option(token[1]);
    if (option == nullptr && program_ == Program::kLint && (token == "--version" || token == "-V")) {
      line_.wish = CommandLine::Wish::kVersion;
      return {};
    }
    if (option == nullptr)
      return wrong(command::unknown_option(program_, command(), is_long ? spelling : token));
    if (is_long || token.size() == 2) {
      std::optional<std::string> attached;
      if (equals != std::string::npos) attached = token.substr(equals + 1);
      const size_t named = at_++;
      return take(*option, named, std::move(attached));
    }
    if (option->values() > 0) {
      const size_t named = at_++;
      return take(*option, named, token.substr(2));
    }
    // "-qv": each a flag, the last may take a value.
    const std::string letters = token.substr(1);
    const size_t named = at_++;
    for (size_t i = 0; i < letters.size() && line_.wish == CommandLine::Wish::kRun; ++i) {
      const CommandOption* one = command().option(letters[i]);
      if (one == nullptr) return wrong(command::unknown_option(program_, command(), token));
      if (one->values() > 0) {
        const bool rest = i + 1 < letters.size();
        return take(*one, named, rest ? std::optional(letters.substr(i + 1)) : std::nullopt);
      }
      TFTF_TRY(take(*one, named, std::nullopt));
    }
    return {};
  }

  // `named`: the argument that names the option; its values follow at at_, or the first is `attached`.
  Result<void> take(const CommandOption& option, size_t named, std::optional<std::string> attached) {
    const std::string name = "--" + std::string(option.name);
    if (option.name == "help") {
      line_.wish = CommandLine::Wish::kHelp;
      return {};
    }
    if (option.name == "version") {
      line_.wish = CommandLine::Wish::kVersion;
      return {};
    }
    if (option.native && host_ != Host::kNative)
      return wrong(name + " is an option of the native program alone");
    if (attached && option.values() == 0) return wrong(name + " takes no value");
    CommandLine::Given given{&option, {}, named};
    if (attached) given.values.push_back(*std::move(attached));
    while (given.values.size() < option.values()) {
      if (at_ == arguments_.size())
        return wrong(
            name + " needs " +
            (option.values() == 1 ? std::string("a value") : std::to_string(option.values()) + " values") +
            (option.shows.empty() ? "" : ": " + name + " " + std::string(option.shows)));
      given.values.push_back(arguments_[at_++]);
    }
    for (const CommandLine::Given& earlier : line_.options) {
      if (option.repeatable || earlier.option->identity() != option.identity()) continue;
      if (earlier.option == &option) return wrong(name + " is given twice, where it may be given once");
      return wrong(name + " is given besides --" + std::string(earlier.option->name) +
                   ", where one of them may be given");
    }
    if (option.of != nullptr) {
      TFTF_TRY(check_of_operation(option, given.values));
    } else {
      for (const std::string& value : given.values)
        if (const std::string complaint = wrong_value(option, value); !complaint.empty())
          return wrong(name + " " + complaint);
    }
    line_.options.push_back(std::move(given));
    return {};
  }

  Result<void> check_of_operation(const CommandOption& option, std::vector<std::string>& values) const {
    Operation operation{std::string(option.operation), {{std::string(option.of->name), values}}};
    spell_out_choices(operation);
    values = operation.options[0].values;
    Result<void> checked = check_options(operation);
    if (checked) return {};
    Error error = std::move(checked).error();
    // The command's name of the option instead of the operation's.
    const std::string before = "--" + std::string(option.of->name) + " of " + operation.id + " ";
    std::string what = error.message;
    if (what.rfind(before, 0) == 0) what = "--" + std::string(option.name) + " " + what.substr(before.size());
    error.message = wrong(what).message;
    return error;
  }

  // The command's own options are recognised anywhere, once an operation was named only by their exact long names and as
  // -i, -o and -v; all else is the chain's (spec tftf 1.4).
  Result<void> take_of_chain() {
    const std::string& token = arguments_[at_];
    if (token == "--") {
      chain_.insert(chain_.end(), arguments_.begin() + static_cast<ptrdiff_t>(at_) + 1, arguments_.end());
      at_ = arguments_.size();
      return {};
    }
    active_ = active_ || find_activator(token) != nullptr;
    const bool is_long = token.rfind("--", 0) == 0;
    const CommandOption* option = nullptr;
    if (is_long) {
      option = command().option(std::string_view(token).substr(2, token.find('=') - 2));
    } else if (token.size() > 1 && token[0] == '-') {
      const bool exact = token == "-i" || token == "-o" || token == "-v";
      if (exact || !active_) option = command().option(token[1]);
      if (option == nullptr && !active_) return wrong(command::unknown_option(program_, command(), token));
    }
    if (option != nullptr) return take_option();
    chain_.push_back(token);
    ++at_;
    return {};
  }

  Result<void> finish_chain() {
    const OperationInfo* section = nullptr;
    for (const std::string& word : chain_) {
      if (const OperationInfo* begun = find_activator(word)) {
        section = begun;
      } else if (section == nullptr || (word.rfind("--", 0) == 0 && !section->option(word.substr(2)))) {
        const std::string near = command::nearly_chain(command(), section, word);
        if (!near.empty()) return wrong(near);
      }
    }
    Result<std::vector<Operation>> operations = parse_chain(chain_);
    if (!operations) {
      Error error = std::move(operations).error();
      error.message = wrong(error.message).message;
      return error;
    }
    for (Operation& operation : *operations) {
      if (operation.id != "reshard") {
        line_.operations.push_back(std::move(operation));
        continue;
      }
      // What it says of the output is what the command's own options say.
      for (Operation::Given& given : operation.options)
        TFTF_TRY(take(*command().option(given.name), at_,
                      given.values.empty() ? std::nullopt : std::optional(given.values[0])));
    }
    return {};
  }

  Result<void> finish_operations() {
    for (const CommandOperation& use : command().info->operations) {
      Operation operation{std::string(use.id), {}};
      const CommandLine::Given* first = nullptr;
      for (const CommandLine::Given& given : line_.options) {
        if (given.option->operation != use.id) continue;
        if (first == nullptr) first = &given;
        operation.options.push_back({std::string(given.option->of->name), given.values});
      }
      if (use.optional && first == nullptr) continue;
      for (const CommandOption& option : command().options) {
        const bool missing =
            option.operation == use.id && option.of->required && operation.find(option.of->name) == nullptr;
        if (missing && first != nullptr)
          return wrong("--" + std::string(first->option->name) + " needs --" + std::string(option.name));
      }
      line_.operations.push_back(std::move(operation));
    }
    return {};
  }

  Result<void> finish() {
    if (command().info->chain) TFTF_TRY(finish_chain());
    for (const CommandOption& option : command().options) {
      if (!option.required || line_.has(option.name)) continue;
      return wrong("--" + std::string(option.name) + (option.shows.empty() ? "" : " ") +
                   std::string(option.shows) + " is required");
    }
    const auto words = command().info->words;
    if (line_.words.size() < words.size() && words[line_.words.size()].required)
      return wrong(std::string(words[line_.words.size()].name) + " is required");
    if (!command().nested.empty() && words.empty()) return wrong("Here one of its commands has to follow");
    TFTF_TRY(finish_operations());
    if (const auto complaint = command::check_together(line_); !complaint.empty()) return wrong(complaint);
    return {};
  }

  Result<CommandLine> topic() {
    std::string path;
    line_.command = find_command("");
    for (const std::string& word : line_.words) {
      path += (path.empty() ? "" : " ") + word;
      const Command* next = find_command(path);
      if (next == nullptr || path.empty()) return wrong(command::unknown_command(command(), word));
      line_.command = next;
    }
    line_.wish = CommandLine::Wish::kHelp;
    return std::move(line_);
  }

  Program program_;
  Host host_;
  std::span<const std::string> arguments_;
  size_t at_ = 0;
  bool active_ = false;
  std::vector<std::string> chain_;
  CommandLine line_;
};

}  // namespace

std::string_view program_name(Program program) { return program == Program::kLint ? "tftf-lint" : "tftf"; }

const CommandLine::Given* CommandLine::find(std::string_view name) const {
  for (auto given = options.rbegin(); given != options.rend(); ++given)
    if (given->option->name == name) return &*given;
  return nullptr;
}

std::string CommandLine::value(std::string_view name) const {
  const Given* given = find(name);
  return given == nullptr || given->values.empty() ? std::string() : given->values[0];
}

std::vector<std::string> CommandLine::values(std::string_view name) const {
  std::vector<std::string> list;
  for (const Given& given : options)
    if (given.option->name == name) list.insert(list.end(), given.values.begin(), given.values.end());
  return list;
}

std::optional<uint64_t> CommandLine::number(std::string_view name) const {
  const Given* given = find(name);
  if (given == nullptr) return std::nullopt;
  if (given->option->kind == OptionKind::kSize) {
    const Result<uint64_t> size = parse_size(given->values[0]);
    return size ? std::optional(*size) : std::nullopt;
  }
  return json_unsigned(given->values[0]);
}

Result<CommandLine> read_command_line(Program program, Host host, std::span<const std::string> arguments) {
  return LineReader(program, host, arguments).read();
}

}  // namespace tftf
