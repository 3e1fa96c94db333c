// The encoder of MLX's affine form.
#pragma once

#include "tftf/quant/encoder.h"

namespace tftf {

// As MLX quantises on a processor: the end of a group that is farther from 0 is met exactly, and 0 is one of the codes.
extern const Encoder kMlxAffineEncoder;

}  // namespace tftf
