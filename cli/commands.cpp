#include "commands.h"

#include "examples.h"
#include "options.h"
#include "tftf/base/version.h"

namespace tftf::cli {

void add_commands(CLI::App& app, Session& session) {
  app.name("tftf");
  app.description("Inspect, lint and transform safetensors checkpoints of any size in little memory.");
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", "tftf, version " + std::string(version()), "Show the version");
  // At most one: later words are arguments, also those that are names of commands.
  app.require_subcommand(0, 1);
  app.formatter(help_formatter());

  add_passthrough(app, session);
  add_dequant_fp8(app, session);
  add_dequant(app, session);
  add_quantize(app, session);
  add_repack(app, session);
  add_merge_lora(app, session);
  add_merge_fsdp_lora(app, session);
  add_merge_dcp_lora(app, session);
  add_run(app, session);
  add_validate(app, session);
  add_lint(app, session);
  add_info(app, session);
  add_stats(app, session);
  add_diff(app, session);
  add_colibri(app, session);
  add_formats(app, session);
  add_completion(app, session);
  add_examples(app);
}

}  // namespace tftf::cli
