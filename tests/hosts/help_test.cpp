// Help and completion as people ask for them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "run_program.h"

namespace tftf {

using test::ProgramRun;

namespace {

using HelpWords = std::vector<std::string>;

ProgramRun asked(HelpWords arguments) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  return test::run_program(arguments);
}

// Commands named by a help text.
HelpWords commands_in(const std::string& help) {
  HelpWords commands;
  const size_t list = std::min(help.find("\nCommands:\n"), help.find("\nTools:\n"));
  if (list == std::string::npos) return commands;
  for (size_t at = help.find('\n', list + 1) + 1; help[at] == ' '; at = help.find('\n', at) + 1) {
    const size_t begin = help.find_first_not_of(' ', at);
    if (begin - at != 2) continue;  // a description goes on
    commands.push_back(help.substr(begin, help.find(' ', begin) - begin));
  }
  return commands;
}

// How many commands there are below `words`; each has examples and says its exit statuses.
size_t check_examples(const HelpWords& words) {
  HelpWords line = words;
  line.push_back("--help");
  const std::string text = asked(line).out;
  const HelpWords below = commands_in(text);
  size_t commands = 0;
  for (const std::string& command : below) {
    HelpWords deeper = words;
    deeper.push_back(command);
    commands += check_examples(deeper);
  }
  if (!below.empty()) return commands;
  INFO(words.back());
  CHECK(text.find("Examples:\n") != std::string::npos);
  CHECK(text.find("Exit status: 0") != std::string::npos);
  return 1;
}

}  // namespace

TEST_CASE("every command has examples and says its exit statuses") {
  CHECK(asked({"--help"}).out.find("Examples:") != std::string::npos);
  CHECK(check_examples({}) >= 14);
}

TEST_CASE("completion scripts know commands, options and their values") {
  const auto complete = [](const std::string& words) {
    const std::string script =
        "source <(" TFTF_BIN "/tftf completion bash); COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _${COMP_WORDS[0]}; echo \"${COMPREPLY[@]}\"";
    return test::run_program({"/bin/bash", "-c", script}).out;
  };
  CHECK(complete("tftf dequant-") == "dequant-fp8\n");
  CHECK(complete("tftf dequant-fp8 --block") == "--block-size\n");
  CHECK(complete("tftf passthrough --dtype bf") == "bfloat16\n");
  CHECK(complete("tftf passthrough -i ''") == "\n");
  CHECK(complete("tftf colibri resol") == "resolve\n");
  CHECK(complete("tftf lint --format ju") == "junit\n");
  CHECK(complete("tftf-lint --format ju") == "junit\n");
  CHECK(complete("tftf-lint rul") == "rules\n");
  CHECK(complete("tftf-lint model") == "\n");
  for (const char* shell : {"zsh", "fish"}) {
    const ProgramRun script = asked({"completion", shell});
    CHECK(script.status == 0);
    CHECK(script.out.find("dequant-fp8") != std::string::npos);
    CHECK(script.out.find("bfloat16") != std::string::npos);
    CHECK(script.out.find("tftf-lint") != std::string::npos);
  }
}

}  // namespace tftf
