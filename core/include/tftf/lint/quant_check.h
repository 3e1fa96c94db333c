// What the data pass looks at in the scales and codes of quantised modules, and in stacked experts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"
#include "tftf/lint/tensor_place.h"

namespace tftf {

// A tensor of scales.
struct ScaleCheck {
  TensorPlace scales;
  bool exponents = false;  // U8 that holds powers of two (F8_E8M0): 255 is NaN
  bool signs =
      false;  // of float codes, more than one element: neither negative nor zero over codes that are not

  // The codes under each scale; block_rows 0 where the grid is not known.
  TensorPlace codes{};
  uint64_t block_rows = 0;
  uint64_t block_bytes = 0;  // of one row under one scale; the last of a row may be shorter
  uint64_t rows = 0;         // of codes
  uint64_t row_bytes = 0;
  uint64_t scale_columns = 0;
  uint8_t value_mask = 0;  // a byte of codes is zero when none of these bits is set

  uint64_t scale_rows() const { return block_rows == 0 ? 0 : (rows + block_rows - 1) / block_rows; }
};

// What was seen of one. Merges in any order.
struct ScaleSeen {
  uint64_t lost = 0;  // zero scales over codes that are not
  uint64_t first_lost = 0;
  uint64_t negative = 0;  // finite; -0 of F8_E4M3 too
  uint64_t first_negative = 0;

  void merge(const ScaleSeen& other);
};

// Looks at scales from element `first` on, and at the codes under them when `codes` is not empty (then whole rows of
// scales).
ScaleSeen scan_scales(const ScaleCheck& check, DType dtype, uint64_t first, Bytes scales, Bytes codes);

// Experts stacked along the first axis of one tensor.
struct ExpertStack {
  TensorPlace tensor;
  uint64_t experts = 0;
  uint64_t expert_bytes = 0;
};
// Whether any element is not zero (either sign). Whole elements of 8 bits and more.
bool has_nonzero(DType dtype, Bytes bytes);

}  // namespace tftf
