// What the options of one command line have to do with each other.
#pragma once

#include <string>

#include "tftf/command/command_line.h"

namespace tftf::command {

// What does not go together, a sentence without its full stop; empty: all is well. Operations that follow from options
// of the command's own are put into the line.
std::string check_together(CommandLine& line);

}  // namespace tftf::command
