// The packings of planes that several layouts share.
#pragma once

#include "tftf/quant/code_form.h"

namespace tftf {

// Words of 32 bits whose fields follow each other down the rows (GPTQ's codes) or along the columns (its zero points), and
// AWQ's along the columns in kAwqOrder. 2, 3, 4 or 8 bits.
extern const PlanePacking kFieldsDownRows;
extern const PlanePacking kFieldsAlongColumns;
extern const PlanePacking kFieldsInAwqOrder;

// E2M1 and other nibbles of a row, two to a byte, the first in the low or the high bits; bytes of a row; and bytes in tiles of
// 128 x 4 (swizzle.h).
extern const PlanePacking kNibblesLowFirst;
extern const PlanePacking kNibblesHighFirst;
extern const PlanePacking kByteRows;
extern const PlanePacking kSwizzledBytes;

// A plane of rows x columns in one of these, as the tensors of weights and block scales are shaped: one row an output.
// `columns` is even for nibbles.
PlaneForm nibble_plane(const PlanePacking& packing, uint64_t rows, uint64_t columns);
PlaneForm byte_plane(const PlanePacking& packing, DType dtype, uint64_t rows, uint64_t columns);

// A plane of rows x columns in one of those of words: I32, rows and columns such that the fields fill words.
PlaneForm field_plane(const PlanePacking& packing, uint64_t rows, uint64_t columns, uint32_t bits);
// A plane of values that are stored as they are.
PlaneForm value_plane(DType dtype, const Shape& shape);

}  // namespace tftf
