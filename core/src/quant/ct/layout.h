// The geometry of a compressed-tensors module, checked: what its decoder works by.
#pragma once

#include <string>

#include "quant/ct/config.h"
#include "quant/ct/fault.h"
#include "tftf/quant/weight.h"

namespace tftf::ct {

enum class Codes : uint8_t {
  kWords,     // fields of `bits` bits in I32 words
  kElements,  // one of `code_dtype` each
  kPairs,     // E2M1, two to a byte
};
enum class Sparse : uint8_t { kNo, kBitmask, kTwoOfFour };
enum class Zeros : uint8_t { kNone, kPlain, kPacked };

struct Layout {
  Codes codes = Codes::kElements;
  DType code_dtype = DType::I8;
  uint32_t bits = 8;
  bool padded = false;  // fields do not cross words
  Sparse sparse = Sparse::kNo;
  uint64_t stored = 0;  // sparse: elements that are stored
  uint64_t matrices = 1, rows = 0, columns = 0;
  uint64_t code_bytes = 0;  // of a row that is not sparse
  bool scaled = false, global = false;
  DType scale_dtype = DType::BF16;
  DType arithmetic = DType::F32;  // what each operation rounds to
  DType result = DType::BF16;
  // A scale covers so many rows and columns; every matrix has a grid of its own (grid_rows 0: all share the first).
  uint64_t scale_rows = 1, scale_columns = 1, grid_rows = 1, grid_columns = 1;
  Zeros zeros = Zeros::kNone;
  DType zero_dtype = DType::I8;
  uint64_t zero_rows = 0;  // packed: rows of words of one matrix
  bool ordered = false;    // the groups of columns are listed

  uint64_t grid_row(uint64_t row) const { return row / rows * grid_rows + row % rows / scale_rows; }
};

// Rows, columns and matrices of a weight's shape; false when they overflow or it has no dimension.
bool set_shape(Layout& layout, const Shape& shape);
// The shape that scales have under these arguments; of one matrix.
Shape expected_scales(const Args& args, const Layout& layout);
// Takes the grid from the shape of the scales: as `args` (or null) say, else as the shape itself tells. Returns what is
// wrong, a phrase, or nothing; `agrees` is false where the arguments say something else.
Fault fit_scales(Layout& layout, const Shape& scales, const Args* args, bool& agrees);
// The zero points and the order of columns, once the grid is known. What is wrong, or nothing.
Fault fit_zeros(Layout& layout, const TensorInfo& zeros, std::optional<uint64_t> version);
Fault fit_order(Layout& layout, const TensorInfo& order);
// Words that a row of `columns` fields takes.
uint64_t packed_words(uint64_t columns, uint64_t bits, bool padded);

// The tensors of a weight, in the order in which the decoder reads them.
Result<Weight> open_layout(OpenContext& context, const QuantMatch& match);
extern const Decoder kLayoutDecoder;

}  // namespace tftf::ct
