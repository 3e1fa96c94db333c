#include "value_run.h"

#include "progress.h"

namespace tftf::cli {

Result<void> run_values(const Session& session, ValuePass& pass, std::span<const NativeModel* const> models) {
  ProgressBar bar(session.common);
  ValueRunOptions options;
  options.threads = session.common.threads;
  options.kernels = *session.kernels();  // checked before any command runs
  options.stop = &Session::stop_requested();
  options.max_memory = session.common.max_memory.value_or(UINT64_MAX);
  options.progress = [&bar](const ValueRunProgress& progress) {
    bar.update(progress.stage == 0 ? "reading" : "reading again", progress.done, progress.total);
  };
  return run_value_pass(pass, models, options);
}

}  // namespace tftf::cli
