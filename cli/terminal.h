// What stdout and stderr are connected to.
#pragma once

#include <cstdint>

namespace tftf::cli {

// Columns of the terminal that a file descriptor is; 0: it is none.
uint32_t terminal_width(int descriptor);
// Columns of what is printed: COLUMNS, the terminal's, or 80.
uint32_t table_width();
// The locale of the environment has no UTF-8: nothing but ASCII is shown.
bool ascii_wanted();

}  // namespace tftf::cli
