// The table of commands, and command lines read by it: every command, every option.
#include "tftf/command/command_line.h"

#include <catch2/catch.hpp>
#include <set>

#include "tftf/adapter/convert.h"
#include "tftf/command/help.h"

using namespace tftf;

namespace {

using Tokens = std::vector<std::string>;

Result<CommandLine> read_line(const Tokens& words, Host host = Host::kNative) {
  return read_command_line(Program::kTftf, host, words);
}

// The error's sentence; empty when there is none.
std::string told(const Tokens& words, Host host = Host::kNative) {
  const Result<CommandLine> line = read_line(words, host);
  if (line) return "";
  CHECK(line.error().code == ErrorCode::kUsage);
  return line.error().message;
}

bool says(const Tokens& words, const std::string& part) {
  const std::string text = told(words);
  INFO(text);
  return text.find(part) != std::string::npos;
}

Tokens path_words(const Command& command) {
  Tokens words;
  const std::string path(command.info->path);
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(' ', at), path.size());
    words.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// A value that the option takes.
std::string sound_value(const CommandOption& option) {
  if (!option.choices.empty()) return std::string(option.choices[0]);
  switch (option.kind) {
    case OptionKind::kInteger:
      return "8";
    case OptionKind::kSize:
      return "5GB";
    case OptionKind::kNumber:
      return "0.5";
    default:
      break;
  }
  if (option.shows == "HEIGHTxWIDTH") return "3x4";
  if (option.shows == "BEGIN:END") return "3:4";
  if (option.shows == "N|e8" || option.shows == "LIST" || option.shows == "W") return "4";
  if (option.name == "from" && option.check != nullptr) return "peft";
  if (option.name == "base-family") return std::string(adapter_base_families()[0]);
  return "word";
}

Tokens once(const CommandOption& option) {
  Tokens words{"--" + std::string(option.name)};
  for (uint32_t i = 0; i < option.values(); ++i) words.push_back(sound_value(option));
  return words;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Runs `check` on every option of every command that can be given.
size_t each_option(void (*check)(const Command&, const CommandOption&)) {
  size_t seen = 0;
  for (const Command& command : all_commands()) {
    for (const CommandOption& option : command.options) {
      if (option.name == "help" || option.name == "version") continue;
      INFO(command.info->path << " --" << option.name);
      check(command, option);
      ++seen;
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("the table of commands is complete and consistent") {
  std::set<std::string_view> paths;
  for (const Command& command : all_commands()) {
    INFO(command.info->path);
    CHECK(paths.insert(command.info->path).second);
    CHECK(find_command(command.info->path) == &command);
    CHECK_FALSE(command.info->summary.empty());
    const bool group = !command.nested.empty() && command.info->words.empty();
    CHECK((group || !command.info->examples.empty()));
    CHECK((group || !command.info->status.empty()));
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const CommandOption& option : command.options) {
      INFO(option.name);
      CHECK(names.insert(option.name).second);
      CHECK((option.letter == 0 || letters.insert(option.letter).second));
      CHECK_FALSE(option.help.empty());
      CHECK((option.kind == OptionKind::kFlag) == option.shows.empty());
      CHECK((option.same_as.empty() || command.option(option.same_as) != nullptr));
    }
    for (const CommandExample& example : command.info->examples)
      CHECK((example.line.rfind("tftf", 0) == 0 || example.line.rfind("source <(tftf", 0) == 0));
  }
  CHECK(paths.size() > 28);
}

TEST_CASE("every option of every command is given once unless it may be repeated") {
  const size_t seen = each_option([](const Command& command, const CommandOption& option) {
    const Tokens words = joined(path_words(command), once(option));
    // What is still missing is told; the option itself is not complained of.
    CHECK(told(words).find("twice") == std::string::npos);
    CHECK(says(joined(words, once(option)), "--" + std::string(option.name) + " is given twice") ==
          !option.repeatable);
  });
  CHECK(seen > 250);
}

TEST_CASE("every option of every command that is nearly spelt right is found") {
  const size_t seen = each_option([](const Command& command, const CommandOption& option) {
    if (option.group.empty() || option.name.size() < 4) return;
    const std::string name(option.name);
    std::string swapped = name;
    std::swap(swapped[1], swapped[2]);
    for (const std::string& wrong : {name.substr(0, name.size() - 1), swapped, name + "s"}) {
      if (command.option(wrong) != nullptr) continue;
      INFO(wrong);
      const std::string text = told(joined(path_words(command), {"--" + wrong}));
      CHECK(text.find("did you mean --") != std::string::npos);
    }
    CHECK(says(joined(path_words(command), {"--" + swapped}),
               swapped == name ? "" : "did you mean --" + name + "?"));
  });
  CHECK(seen > 250);
}

TEST_CASE("every command that is nearly spelt right is found") {
  for (const Command& command : all_commands()) {
    Tokens words = path_words(command);
    if (words.empty() || command.info->path == "lint rules") continue;  // there a word is a PATH
    const std::string name = words.back();
    words.back() = name.substr(0, 1) + name.substr(2);
    INFO(words.back());
    CHECK(says(words, "did you mean " + name + "?"));
    CHECK(says(words, words.size() > 1 ? "(see tftf " + words[0] + " --help)." : "(see tftf --help)."));
  }
  CHECK(says({"classify"}, "did you mean colibri classify?"));
  CHECK_FALSE(says({"xyzzy"}, "did you mean"));
}

TEST_CASE("what is called otherwise in another command is told") {
  CHECK(says({"merge-lora", "-i", "m"}, "here the model is given by -b MODEL (--base)"));
  CHECK(says({"merge-dcp-lora", "--input", "m"}, "-b MODEL (--base)"));
  CHECK(says({"passthrough", "-b", "m"}, "-i MODEL (--input)"));
  CHECK(says({"info", "-i", "m"}, "here the model is given as it is: tftf info MODEL"));
  CHECK(says({"colibri", "convert", "-i", "m"}, "--indir DIR"));
  CHECK(says({"colibri", "convert", "-o", "m"}, "--outdir DIR"));
  CHECK(says({"--json", "info"}, "options stand behind the command"));
  CHECK(says({"passthrough", "-dtype", "bf16"}, "did you mean --dtype?"));
  CHECK(says({"info", "m", "--tolerance", "1"}, "it is an option of diff"));
  CHECK(says({"run", "-i", "a", "-o", "b", "--dequnat"}, "did you mean --dequant?"));
  CHECK(says({"run", "-i", "a", "-o", "b", "--key-filter", "--exlude", "x"}, "did you mean --exclude?"));
  CHECK(
      says({"run", "-i", "a", "-o", "b", "--dequant-fp8", "--rule", "x", "y"}, "it belongs to --key-rename"));
}

TEST_CASE("options are written in every usual form") {
  for (const Tokens& words : {Tokens{"passthrough", "-i", "m", "-o", "out", "--dtype", "bf16", "-qv"},
                              Tokens{"passthrough", "-im", "-oout", "--dtype=bf16", "-q", "-v", "-v"},
                              Tokens{"passthrough", "-qvim", "--output=out", "--dtype", "BF16"}}) {
    const Result<CommandLine> line = read_line(words);
    INFO(told(words));
    REQUIRE(line.ok());
    CHECK(line->value("input") == "m");
    CHECK(line->value("output") == "out");
    CHECK(line->has("quiet"));
    CHECK(line->has("verbose"));
    REQUIRE(line->operations.size() == 1);
    CHECK(line->operations[0].id == "cast");
    CHECK(line->operations[0].find("dtype")->front() == "bfloat16");
  }
  // A value is taken whatever it looks like; what follows "--" are words.
  CHECK(read_line({"passthrough", "-i", "-x", "-o", "--"})->value("output") == "--");
  CHECK(read_line({"info", "--", "--json"})->words == Tokens{"--json"});
  CHECK(read_line({"info", "-"})->words == Tokens{"-"});
  CHECK(says({"info"}, "MODEL is required"));
  CHECK(says({"info", "a", "b"}, "An argument was not expected: \"b\""));
  CHECK(says({"info", "--fold=yes", "a"}, "--fold takes no value"));
  CHECK(says({"info", "a", "--filter"}, "--filter needs a value"));
  CHECK(says({"info", "a", "--fold", "--no-fold"}, "--no-fold is given besides --fold"));
  CHECK(says({"passthrough", "-i", "a"}, "--output OUT is required"));
  CHECK(
      says({"passthrough", "-i", "a", "-o", "b", "--cast-floats-only"}, "--cast-floats-only needs --dtype"));
  CHECK(says({"dequant-fp8", "-i", "a", "-o", "b", "--lora-scale", "2"}, "--lora-scale needs --merge-lora"));
  CHECK(says({"dequant-fp8", "-i", "a", "-o", "b", "--merge-lora", "c", "--lora-scale", "x"},
             "--lora-scale is"));
  CHECK(says({"colibri"}, "has to follow"));
}

TEST_CASE("sizes and numbers of every option are checked") {
  each_option([](const Command& command, const CommandOption& option) {
    Tokens wrong;
    if (option.kind == OptionKind::kSize) wrong = {"0", "0GB", "-1", "x", "5XB", ""};
    if (option.kind == OptionKind::kInteger) wrong = {"-1", "x", "", "1.5", "99999999999999999999"};
    if (option.kind == OptionKind::kInteger && option.least > 0) wrong.emplace_back("0");
    // All of a row is a group, too.
    if (command.name() == "quantize" && option.name == "group-size") wrong = {"-2", "x", "", "1.5"};
    if (option.kind == OptionKind::kNumber) wrong = {"x", "", "nan", "inf"};
    if (option.check != nullptr) wrong = {"", "x", "1x"};
    if (option.kind == OptionKind::kChoice) wrong = {"", "no such"};
    for (const std::string& value : wrong) {
      INFO(value);
      CHECK(says(joined(path_words(command), {"--" + std::string(option.name), value}),
                 "--" + std::string(option.name) + " is"));
    }
  });
}

TEST_CASE("help and version are asked for in several ways") {
  for (const Tokens& words : {Tokens{}, {"--help"}, {"-h"}, {"help"}}) {
    const Result<CommandLine> line = read_line(words);
    REQUIRE(line.ok());
    CHECK(line->wish == CommandLine::Wish::kHelp);
    CHECK(line->command->info->path.empty());
  }
  for (const Command& command : all_commands()) {
    for (const Tokens& words :
         {joined({"help"}, path_words(command)), joined(path_words(command), {"-h"}),
          joined(path_words(command), {"--help"}), joined(path_words(command), {"--help", "--no-such"})}) {
      const Result<CommandLine> line = read_line(words);
      REQUIRE(line.ok());
      CHECK(line->wish == CommandLine::Wish::kHelp);
      CHECK(line->command == &command);
      const std::string text = help_text(Program::kTftf, Host::kNative, command);
      for (const CommandOption& option : command.options)
        CHECK((option.group.empty() || text.find("--" + std::string(option.name)) != std::string::npos));
      for (const CommandExample& example : command.info->examples)
        CHECK(text.find(example.line) != std::string::npos);
    }
  }
  for (const Tokens& words : {Tokens{"--version"}, {"-V"}, {"version"}})
    CHECK(read_line(words)->wish == CommandLine::Wish::kVersion);
  CHECK(read_command_line(Program::kLint, Host::kNative, Tokens{"-V"})->wish == CommandLine::Wish::kVersion);
  CHECK(says({"help", "merge-lroa"}, "did you mean merge-lora?"));
}

TEST_CASE("Node.js has the same commands but for what only the native program can do") {
  each_option([](const Command& command, const CommandOption& option) {
    if (command.info->native) return;
    const std::string text = told(joined(path_words(command), once(option)), Host::kNode);
    CHECK((text.find("native program alone") != std::string::npos) == option.native);
  });
  CHECK(told({"colibri", "rans-verify", "x"}, Host::kNode).find("native program alone") != std::string::npos);
  CHECK(help_text(Program::kTftf, Host::kNode, *find_command("info")).find("--simd") == std::string::npos);
}

TEST_CASE("run takes its own options anywhere, and what a reshard says is theirs") {
  const Result<CommandLine> line = read_line({"run", "-i", "m", "--dequant", "bf16", "--quantize",
                                              "fp8-block", "-o", "out", "--reshard", "5GB", "--single"});
  REQUIRE(line.ok());
  REQUIRE(line->operations.size() == 2);
  CHECK(line->operations[1].id == "quantize");
  CHECK(line->number("max-shard-size") == 5'000'000'000);
  CHECK(line->has("single"));
  CHECK(says({"run", "-i", "m", "-o", "out", "--max-shard-size", "1GB", "--reshard", "5GB"}, "twice"));
  CHECK(says({"run", "-i", "m", "-o", "out", "stray"}, "stands before any operation"));
  CHECK(read_line({"run", "-i", "m", "-o", "out", "--key-filter", "-old", "-qx"})
            ->operations[0]
            .options.size() == 2);
}

TEST_CASE("words for a shell come back as they were") {
  CHECK(shell_quoted("a-b/c.d=e") == "a-b/c.d=e");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("big model") == "'big model'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("modèle") == "'modèle'");
  CHECK(shell_quoted("a\nb'\x1b") == "$'a\\012b\\'\\033'");
}
