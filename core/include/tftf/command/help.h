// Texts made from the table of commands: help and completion.
#pragma once

#include <string>
#include <string_view>

#include "tftf/command/command_line.h"

namespace tftf {

// What --help prints, for a terminal of 100 columns.
std::string help_text(Program program, Host host, const Command& command);

// "-o, --output OUT".
std::string option_names(const CommandOption& option);

// The script that completes both programs in a shell: "bash", "zsh" or "fish".
std::string completion_script(std::string_view shell, Host host);

}  // namespace tftf
