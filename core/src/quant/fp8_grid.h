// Weights of FP8 codes with a grid of scales: the decoder of every layout that is one (spec tftf 2.4, other-quant-layouts 5;
// docs/numerics.md, "FP8 with scales").
#pragma once

#include "tftf/quant/fp8.h"
#include "tftf/quant/weight.h"

namespace tftf {

// y = round(f32(code) * f32(scale)), or / scale; NaN is canonical. Reads and decodes runs from any element to any other.
// Numeric contract: KernelTable::dequantize_f8.
extern const Decoder kFp8GridDecoder;

struct Fp8Grid {
  Fp8Geometry geometry{};
  DType code_dtype{};
  DType scale_dtype{};  // is_fp8_scale_dtype()
  bool divide = false;
};

// A stack of matrices as one matrix where the scales allow it: grids that line up, rows, one scale each.
Fp8Geometry flattened(Fp8Geometry geometry);

// `shape`: of the codes, and of the elements. Part 0 is the codes, part 1 the scales; both must have the sizes that the
// geometry says. kRefusedUnsupported ("has …") for more blocks than can be read one by one.
Result<Weight> fp8_grid_weight(const Fp8Grid& grid, const Shape& shape, TensorRef codes, TensorRef scales);

// Blocks of `block` rows and columns under a grid as stored, [.., grid rows, grid columns], which may be larger than the
// weight needs. Nothing when it is smaller, or shapes and dtypes are none of such a weight.
std::optional<Fp8Grid> fp8_blocks(const TensorInfo& codes, const TensorInfo& scales, Fp8Block block);

}  // namespace tftf
