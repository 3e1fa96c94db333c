// How the commands that look at values run a pass over them.
#pragma once

#include <span>

#include "session.h"
#include "tftf_native/value_run.h"

namespace tftf::cli {

// Runs a pass to its end, with progress, Ctrl-C, --threads and --max-memory.
Result<void> run_values(const Session& session, ValuePass& pass, std::span<const NativeModel* const> models);

}  // namespace tftf::cli
