// Plain floats as F32, the values unchanged.
#pragma once

#include "transform/colibri/shard_planner.h"

namespace tftf::colibri {

// Float dtypes that F32 holds exactly, and F32 itself. Not F8_E8M0 and the like: scales in them mean another layout.
bool can_widen(DType dtype);
// `to`: F32, of as many elements.
MadeTensors widened(const FolderSource& source, TensorRef from, OutputEntry to);

}  // namespace tftf::colibri
