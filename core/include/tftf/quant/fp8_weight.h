// Weights of FP8 codes with a grid of multipliers: which bytes a run of elements needs, and its values (spec
// other-quant-layouts 5; docs/numerics.md, "FP8 with scales").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/quant/config.h"
#include "tftf/quant/format.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// A run of elements of a tensor, in the order they are stored.
struct ElementRun {
  uint64_t first = 0;
  uint64_t count = 0;
};

// A stack of matrices of codes; element (i, j) of matrix m has the scale at row i / block_rows, column j /
// block_cols of the m-th grid. A grid may be larger than its matrix needs.
struct Fp8Weight {
  TensorRef codes;
  TensorRef scales;
  DType code_dtype{};
  DType scale_dtype{};
  uint64_t matrices = 1;
  uint64_t rows = 1;  // of one matrix
  uint64_t cols = 1;
  uint64_t block_rows = 1;
  uint64_t block_cols = 1;
  uint64_t grid_rows = 1;  // as stored
  uint64_t grid_cols = 1;
};

// What a module found by detect_layouts() means, for the layouts fp8-block and deepseek-v4-fp8; nothing for all
// others, for shapes that do not fit, and when the configuration says that the scales divide
// (weight_scale_semantics).
std::optional<Fp8Weight> fp8_weight(const Checkpoint& checkpoint, const QuantConfig& config,
                                    const QuantMatch& match);

// The scales (elements of the stored grid) that a run of at least one element needs: one contiguous run. Inside
// one row only the columns it touches, else whole grid rows.
ElementRun fp8_scales_of(const Fp8Weight& weight, ElementRun run);

// y = round(f32(code) * f32(scale)) as `to`: BF16, F16 or F32. `run` lies within `held`, whose scales, widened
// to F32, are `scales`: those of fp8_scales_of(held). `codes` are those of `run`, `out` has run.count elements.
void dequantize_fp8_run(const KernelTable& kernels, const Fp8Weight& weight, ElementRun held,
                        const std::vector<float>& scales, ElementRun run, const std::byte* codes, DType to,
                        std::byte* out) noexcept;

}  // namespace tftf
