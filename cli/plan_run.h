// Running a plan to its end, whichever planner made it: checks, dry run, progress, account.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/transform/account.h"
#include "tftf_native/executor.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {

// Serves a planner until it has all it wants. What cannot be read ends it: a plan is not made from the rest.
template <class Pump>
Result<void> serve(Pump& planner, const NativeModel& model) {
  std::vector<std::byte> buffer;
  for (auto requests = planner.want(); !requests.empty(); requests = planner.want()) {
    for (const ReadRequest& wanted : requests) {
      auto source = open_file_source(model.path_of(wanted.file));
      if (!source) return std::move(source).error();
      buffer.resize(static_cast<size_t>(wanted.range.length));
      TFTF_TRY((*source)->read(wanted.range.offset, buffer));
      planner.supply(wanted, buffer);
    }
  }
  return {};
}

struct PlanRun {
  const CommandLine& line;
  Plan& plan;
  std::vector<RunInput> inputs;
  OutputTarget target;
  ExecuteOptions how;
  bool dry_run = false;
  bool nowhere = false;    // a dry run that names no output
  bool ask_first = false;  // a destination that is too small or read-only is refused before anything is made
  // The account of a dry run (null) or of a finished one.
  std::function<Account(const RunReport*)> account;
  // What is done once everything is durable, before the account is given. Null: nothing.
  std::function<Result<void>()> afterwards{};
};

// Gives the exit status; says on stderr what is wrong.
int run_plan(const Session& session, PlanRun run);

}  // namespace tftf::cli
