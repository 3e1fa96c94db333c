#include "commands.h"
#include "tftf/command/format_list.h"

namespace tftf::cli {

int run_formats(Session& session, const CommandLine&) {
  if (session.common.json)
    session.print_json(formats_json());
  else
    session.print(formats_text());
  return 0;
}

}  // namespace tftf::cli
