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

// The grid under a name that says "multiply": fp8_geometry(), else fp8_blocks() (a grid larger than needed).
std::optional<Fp8Grid> fp8_named_grid(const TensorInfo& codes, const TensorInfo& scales, Fp8Block block);

// Any scales that say by their shape what they multiply (scale_shape.h): one for all, one per matrix of a stack, one per
// row, or a grid for `block`, with 1-dimensions between. Nothing when none of these fits.
std::optional<Fp8Grid> fp8_scales(const TensorInfo& codes, const TensorInfo& scales,
                                  std::optional<Fp8Block> block);

// FP8 codes that are the values themselves; the one part is the codes.
Weight fp8_plain_weight(const TensorInfo& codes, TensorRef tensor);

// Opens a module whose scales, in the companion `role`, multiply as fp8_scales() says, by the match's block.
Result<Weight> open_fp8_scales(OpenContext& context, const QuantMatch& match, std::string_view role);

}  // namespace tftf
