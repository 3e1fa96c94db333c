// What the commands do, one file each or a few that are alike. A new one: its row in core/src/command, its function here
// and its line in commands.cpp.
#pragma once

#include "session.h"

namespace tftf::cli {

int run_conversion(Session& session,
                   const CommandLine& line);  // every command that the table of operations makes
int run_sharded_merge(Session& session, const CommandLine& line);
int run_distributed_merge(Session& session, const CommandLine& line);
int run_validate(Session& session, const CommandLine& line);
int run_lint(Session& session, const CommandLine& line);
int run_rules(Session& session, const CommandLine& line);
int run_info(Session& session, const CommandLine& line);
int run_stats(Session& session, const CommandLine& line);
int run_diff(Session& session, const CommandLine& line);
int run_adapter_info(Session& session, const CommandLine& line);
int run_adapter_convert(Session& session, const CommandLine& line);
int run_formats(Session& session, const CommandLine& line);
int run_completion(Session& session, const CommandLine& line);
int run_folder_tool(Session& session, const CommandLine& line);  // converters of colibri
int run_rans_repack(Session& session, const CommandLine& line);
int run_resolve(Session& session, const CommandLine& line);
int run_classify(Session& session, const CommandLine& line);
int run_stamps(Session& session, const CommandLine& line);
int run_rans_verify(Session& session, const CommandLine& line);

// Runs what a line names; gives the exit status.
int run_command(Session& session, const CommandLine& line);

}  // namespace tftf::cli
