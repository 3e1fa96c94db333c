// FP8 weights and the scales that belong to them: pairing by name, geometry by shape (spec tftf 2.4). Pure
// functions over names, dtypes and shapes, for transforms (whose names may already be changed) and for
// inspection alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/quant/config.h"

namespace tftf {

struct TensorView {
  std::string_view name;
  DType dtype{};
  const Shape* shape = nullptr;
};

// How a scale's name says it is used.
enum class Fp8ScaleName : uint8_t {
  kInverse,  // ….weight_scale_inv, <parameter>_scale_inv: a multiplier, despite its name
  kPlain,    // ….weight_scale: a divisor where nothing says otherwise
};

struct Fp8Scale {
  uint32_t weight = 0;  // indices into the list that was paired
  uint32_t scale = 0;
  Fp8ScaleName name = Fp8ScaleName::kInverse;
};

struct Fp8Pairing {
  std::vector<Fp8Scale> scales;    // in list order of the scales; weights of any dtype
  std::vector<uint32_t> orphans;   // scales without a weight
  std::vector<uint32_t> unscaled;  // tensors of an FP8 dtype that are no scales and have none
};

// Scales are the names that equal or end in (after a '.') weight_scale_inv or weight_scale, of <m>.weight, or
// of <m> itself when there is no <m>.weight; and <parameter>_scale_inv where that parameter exists.
Fp8Pairing pair_fp8(std::span<const TensorView> tensors);

// Rows and columns that one scale covers.
struct Fp8Block {
  uint64_t rows = 128;
  uint64_t cols = 128;
  friend bool operator==(const Fp8Block&, const Fp8Block&) = default;
};

// Which scale belongs to element (i, j) of a matrix: scales[(i / block_rows) * row_stride + (j / block_cols) *
// col_stride]. A stack of `matrices` has one such grid after the other, `grid_elements` apart.
struct Fp8Geometry {
  enum class Kind : uint8_t { kTensor, kBlock, kTransposed, kRow, kColumn };
  Kind kind = Kind::kTensor;
  uint64_t matrices = 1;
  uint64_t rows = 1;  // of one matrix
  uint64_t cols = 1;
  uint64_t block_rows = 1;
  uint64_t block_cols = 1;
  uint64_t row_stride = 0;
  uint64_t col_stride = 0;
  uint64_t grid_elements = 1;  // scales of one matrix; 0 between matrices when all share one scale
  bool shared = false;         // one scale for the whole stack
  friend bool operator==(const Fp8Geometry&, const Fp8Geometry&) = default;
};

// The first that fits, in this order: block grid, transposed block grid, one scale for the tensor, one per
// row, one per column. A stack of matrices takes a scale whose first dimensions are the stack's and whose other
// dimensions follow these rules, or one scale for all. A vector takes one scale only. Nothing when no rule fits. block.rows and block.cols are at least 1.
std::optional<Fp8Geometry> fp8_geometry(const Shape& weight, const Shape& scale, Fp8Block block);

// "a scale grid [2,3] for blocks of 128 x 128", for messages: what fp8_geometry() would take first.
std::string fp8_expected_grid(const Shape& weight, Fp8Block block);

// F32, BF16, F16, F64 or F8_E8M0.
bool is_fp8_scale_dtype(DType dtype);

// weight_block_size of the quantisation section; nothing when absent. kRefusedConfig when it is not two positive
// integers.
Result<std::optional<Fp8Block>> fp8_config_block(const QuantConfig& config);

}  // namespace tftf
