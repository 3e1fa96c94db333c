#include "plan_run.h"

#include <unistd.h>

#include "progress.h"
#include "tftf/base/escape.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

void report_account(const Session& session, const Account& account) {
  // The text form has the warnings too: nobody needs them twice on a screen.
  const bool shown = !session.common.json && !session.common.quiet && ::isatty(STDOUT_FILENO) == 1;
  if (!shown) warn_all(session, account.warnings);
  if (session.common.json) {
    session.print_json(account.to_json());
  } else if (!session.common.quiet || account.dry_run) {
    session.print(account.to_text(session.common.verbose));
  }
}

// The same command may succeed the next time. Not so where the data, the inputs or the destination are refused.
bool may_be_repeated(ErrorCode code) {
  return code == ErrorCode::kInterrupted || code == ErrorCode::kIoSpace || code == ErrorCode::kIoWrite ||
         code == ErrorCode::kIoRead;
}

Result<void> check_run(const PlanRun& run) {
  if (run.nowhere) return {};
  TFTF_TRY(check_target(run.plan, run.inputs, run.target, run.how));
  TFTF_TRY(check_writable(run.target));
  return check_free_space(run.plan, run.target);
}

}  // namespace

int run_plan(const Session& session, PlanRun run) {
  Plan& plan = run.plan;
  if (auto fits = check_memory(session, plan); !fits) return session.fail(fits.error());
  if (run.dry_run || run.ask_first) {
    if (auto allowed = check_run(run); !allowed) return session.fail(allowed.error());
  }
  if (run.dry_run) {
    if (!session.common.json) {
      session.print(plan.to_text(session.common.verbose) + "memory " +
                    std::to_string(plan.memory_bytes(run.how.threads)) + "\n\n");
    }
    report_account(session, run.account(nullptr));
    return 0;
  }
  Result<RunReport> done = [&] {
    ProgressBar bar(session.common);
    run.how.progress = [&bar](const Progress& progress) {
      bar.update("writing", progress.done, progress.total);
    };
    return execute(plan, run.inputs, run.target, run.how);
  }();
  if (!done) {
    Error error = std::move(done).error();
    // Where nothing but time, room or a cable was missing, a journal that is still there is one to go on with.
    const auto journal = journal_tile(run.target);
    if (may_be_repeated(error.code) && journal && *journal && !error.message.empty()) {
      error.message.pop_back();
      error.message += "; this continues: " + session.command_line(run.line);
    }
    return session.fail(error);
  }
  if (run.afterwards != nullptr) {
    if (auto after = run.afterwards(); !after) return session.fail(after.error());
  }
  report_account(session, run.account(&*done));
  return 0;
}

}  // namespace tftf::cli
