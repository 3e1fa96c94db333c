// Sentences about command lines that are wrong: what was probably meant.
#pragma once

#include <string>
#include <string_view>

#include "tftf/base/result.h"
#include "tftf/command/command_line.h"

namespace tftf::command {

// "tftf colibri convert".
std::string called(Program program, const Command& command);
// kUsage with the command whose help tells more; `what` is a sentence without its full stop.
Error mistake(Program program, const Command& command, std::string what);

// `given`: "--name" or "-n", which the command does not have.
std::string unknown_option(Program program, const Command& command, std::string_view given);
std::string unknown_command(const Command& above, std::string_view word);
// A word of a chain that is no option of its section, nearly spelt like one; empty: nothing is near.
std::string nearly_chain(const Command& command, const OperationInfo* section, std::string_view word);

}  // namespace tftf::command
