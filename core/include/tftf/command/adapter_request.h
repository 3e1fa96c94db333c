// What command lines of `tftf adapter` ask of the core.
#pragma once

#include "tftf/adapter/convert.h"
#include "tftf/command/command_line.h"

namespace tftf {

// Options of a checked line of `adapter convert`. `base`: what its --base names, or null. `single_name`: the one file that
// is written; empty for a folder. kUsage for numbers that are no scale.
Result<AdapterConvertOptions> adapter_convert_options(const CommandLine& line, const Checkpoint* base,
                                                      std::string single_name);

}  // namespace tftf
