#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace tftf::cli {

uint32_t terminal_width() {
  if (::isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace tftf::cli
