#include "quant/scale_shape.h"

#include <algorithm>

namespace tftf {

ScaleShape scale_shape(const Shape& weight, const Shape& scale) {
  if (is_scalar(scale)) return ScaleShape::kTensor;
  Shape experts, rows;
  if (weight.size() >= 2) {
    experts.assign(weight.begin(), weight.end() - 2);
    rows.assign(weight.begin(), weight.end() - 1);
  }
  const Shape entries = squeezed(scale);
  if (!experts.empty() && entries == squeezed(experts)) return ScaleShape::kTensor;
  return entries == squeezed(rows) ? ScaleShape::kChannel : ScaleShape::kOther;
}

std::optional<BlockSize> block_of(const Shape& weight, const Shape& scale,
                                  std::optional<BlockSize> declared) {
  if (weight.size() < 2) return std::nullopt;
  const size_t leading = weight.size() - 2;
  if (scale.size() < leading ||
      !std::equal(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(leading), scale.begin()))
    return std::nullopt;
  const Shape grid(scale.begin() + static_cast<std::ptrdiff_t>(leading), scale.end());
  uint64_t rows = 0, columns = 0;
  if (grid.size() == 2) {
    rows = grid[0], columns = grid[1];
  } else if (grid.size() == 4 && grid[1] == 1 && grid[3] == 1) {
    rows = grid[0], columns = grid[2];
  } else {
    return std::nullopt;
  }
  return fit_blocks(weight[leading], weight[leading + 1], rows, columns, declared);
}

}  // namespace tftf
