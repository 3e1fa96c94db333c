// E2M1 codes in pairs under E4M3 scales of 16 and an F32 scale: what the NVFP4 layouts of all producers share.
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

struct Nvfp4Matrix {
  uint64_t rows = 0;  // of all matrices of a stack
  uint64_t columns = 0;
  uint64_t rows_per_scale = 0;  // rows that share one F32 scale
};

// ModelOpt's order: low nibbles first, [rows, columns / 2]; scales [rows, columns / 16], rounded up; w = (code * block scale)
// * F32 scale, in F32. Parts: codes, block scales, F32 scales.
Weight nvfp4_weight(const Nvfp4Matrix& matrix, const Shape& shape, TensorRef codes, TensorRef block_scales,
                    TensorRef global_scales);

}  // namespace tftf
