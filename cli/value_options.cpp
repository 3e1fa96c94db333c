#include "value_options.h"

#include "options.h"
#include "progress.h"

namespace tftf::cli {

void add_selection(CLI::App& command, std::vector<std::string>& include, std::vector<std::string>& exclude,
                   std::vector<std::string>& names) {
  add_texts(command, "--include", include, "Only tensors whose name matches; may be repeated")
      ->type_name("GLOB");
  add_texts(command, "--exclude", exclude, "Not tensors whose name matches; may be repeated")
      ->type_name("GLOB");
  add_texts(command, "--tensor", names, "Only the tensor of exactly this name; may be repeated")
      ->type_name("NAME");
}

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
