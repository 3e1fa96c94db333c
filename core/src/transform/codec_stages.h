// Stages between stored codes and elements (spec colibri 1, other-quant-layouts 4 and 5). All work on whole rows, or
// whole blocks of 128 rows; a decoded element is an F32, rounded by the stages that follow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stage.h"
#include "tftf/base/result.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/rans.h"
#include "tftf/quant/fp8_weight.h"

namespace tftf::transform {

// A matrix in one of colibri's formats but kF32 and kMxfp4.
struct ColibriMatrix {
  colibri::Format format{};
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t group_size = 0;  // kInt4Grouped
  uint32_t bits = 0;        // of a code, for encoding into the int8 and int4 containers
};

// Codes to F32; the data are NAME, `scales` NAME.qs. The sizes of both must be those of the format.
Stage colibri_decoder(const ColibriMatrix& matrix, TensorRef scales);
// Records of int4-rans256-g0 to F32, a whole matrix at once: the data are the record, which must decode to the codes of
// int4-row, else Value's x[1] is 1.
Stage rans_decoder(uint64_t rows, uint64_t columns, TensorRef scales,
                   std::shared_ptr<const colibri::RansTable> table);
// `from` to codes and (but for kE8Lattice, whose scale is a constant) scales: outputs 0 and 1. `from`: F32, BF16 or F16.
Stage colibri_encoder(const ColibriMatrix& matrix, DType from);

// FP8 with a grid of multipliers to F32, BF16 or F16; a stack whose grids don't line up has matrices > 1 then.
Stage fp8_decoder(const Fp8Weight& weight, DType to);
// Blocks of 128 x 128: E4M3 codes and a grid of F32, outputs 0 and 1: s = amax / 448, 1 for a block of zeros.
Stage fp8_encoder(uint64_t rows, uint64_t columns, DType from);

// ModelOpt's NVFP4: E2M1 nibbles, low ones first, [rows, columns / 2]; an E4M3 scale per 16 columns, rounded up; an F32
// scale for `rows_per_scale` rows each. w = (code * block scale) * global scale.
struct Nvfp4Matrix {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t rows_per_scale = 0;
};
Stage nvfp4_decoder(const Nvfp4Matrix& matrix, TensorRef block_scales, TensorRef global_scales);

// A row, or a block of 128 rows, is worked on at once: past this many bytes of input it is refused while planning.
inline constexpr uint64_t kLargestUnitBytes = uint64_t{256} << 20;

}  // namespace tftf::transform
