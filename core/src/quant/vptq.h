// What config.json says of a module of VPTQ, and its opening.
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

// QuantMatch::detail.
struct VptqGeometry {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t length = 0;     // outputs in a vector
  uint64_t centroids = 0;  // of a group
  uint64_t residuals = 0;  // centroids that are added; 0: none
  uint64_t groups = 0;
  uint64_t group_size = 0;  // columns of a group
  uint64_t outliers = 0;    // columns that stand before those of the groups
  uint64_t outlier_length = 0;
  uint64_t outlier_centroids = 0;
  bool packed = false;
  bool normed = false;
  bool permuted = false;
};

Result<Weight> open_vptq(OpenContext& context, const QuantMatch& match);

}  // namespace tftf
