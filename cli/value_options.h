// What the commands that look at values share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "session.h"
#include "tftf_native/value_run.h"

namespace tftf::cli {

// --include, --exclude, --tensor.
void add_selection(CLI::App& command, std::vector<std::string>& include, std::vector<std::string>& exclude,
                   std::vector<std::string>& names);

// Runs a pass to its end, with progress, Ctrl-C, --threads and --max-memory.
Result<void> run_values(const Session& session, ValuePass& pass, std::span<const NativeModel* const> models);

}  // namespace tftf::cli
