#include "commands.h"
#include "tftf/command/help.h"

namespace tftf::cli {

int run_completion(Session& session, const CommandLine& line) {
  session.print(completion_script(line.words[0], Host::kNative));
  return 0;
}

}  // namespace tftf::cli
