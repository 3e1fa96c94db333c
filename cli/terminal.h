// What stdout is connected to.
#pragma once

#include <cstdint>

namespace tftf::cli {

// Columns; 0 when stdout is no terminal: then nothing is cut.
uint32_t terminal_width();

}  // namespace tftf::cli
