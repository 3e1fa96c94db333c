// Command line options made from the table of operations.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "tftf/transform/operation.h"

namespace tftf::cli {

// Adds the options of an operation to a command, in its own group of the help; what is given is appended to
// `to`. An operation with required options is only meant when one of its options is given: then `optional`.
// `names`: how the command spells an option where not as in the table, "-a,--adapter"; "" leaves it out.
void add_operation_options(CLI::App& command, const OperationInfo& info, Operation& to, bool optional = false,
                           const std::map<std::string_view, std::string>& names = {});

}  // namespace tftf::cli
