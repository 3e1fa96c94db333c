#include <chrono>

#include "commands.h"
#include "progress.h"
#include "tftf/transform/validation.h"
#include "transform_run.h"

namespace tftf::cli {
int run_validate(Session& session, const CommandLine& line) {
  const std::string& path = line.words[0];
  const auto start = std::chrono::steady_clock::now();
  TransformRequest request{.command = "validate", .input = path, .dry_run = true};
  request.examine = true;
  request.operations = line.operations;
  Result<NativeModel> model = open_model(session, path);
  if (!model) return session.fail(model.error());
  Result<Transform> transform = make_plan(*model, std::move(request));
  if (!transform) return session.fail(transform.error());
  if (auto fits = check_memory(session, transform->plan); !fits) return session.fail(fits.error());
  {
    ProgressBar bar(session.common);
    ExecuteOptions how = execute_options(session);
    how.progress = [&bar](const Progress& progress) { bar.update("reading", progress.done, progress.total); };
    const auto done = examine(transform->plan, run_inputs(*model, transform->plan), how);
    if (!done) return session.fail(done.error());
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const ValidationReport report{
      &*transform,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count())};
  const bool verbose = session.common.verbose;
  warn_all(session, transform->account.warnings);
  if (session.common.json) {
    session.print_json(report.to_json(verbose));
  } else {
    session.print(report.to_text(verbose));
  }
  return 0;
}

}  // namespace tftf::cli
