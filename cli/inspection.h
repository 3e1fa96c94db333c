// How the commands that look at a model read the small tensors that its inspector asks for.
#pragma once

#include "tftf/inspect/info.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {

// Serves the inspector until it has all it wants; what cannot be read stays unknown to it.
void serve_small_reads(const NativeModel& model, Inspector& inspector);

}  // namespace tftf::cli
