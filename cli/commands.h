// The commands of `tftf`, one file each. A new one: its file, a line here and a line in commands.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include "session.h"

namespace tftf::cli {

void add_passthrough(CLI::App& app, Session& session);
void add_dequant_fp8(CLI::App& app, Session& session);
void add_dequant(CLI::App& app, Session& session);
void add_quantize(CLI::App& app, Session& session);
void add_repack(CLI::App& app, Session& session);
void add_merge_lora(CLI::App& app, Session& session);
void add_merge_fsdp_lora(CLI::App& app, Session& session);
void add_merge_dcp_lora(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_validate(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);
void add_info(CLI::App& app, Session& session);
void add_stats(CLI::App& app, Session& session);
void add_diff(CLI::App& app, Session& session);
void add_lint(CLI::App& app, Session& session);
void add_colibri(CLI::App& app, Session& session);
void add_formats(CLI::App& app, Session& session);

// The whole program `tftf`.
void add_commands(CLI::App& app, Session& session);

// The whole program `tftf-lint`.
void set_up_lint_program(CLI::App& app, Session& session);

}  // namespace tftf::cli
