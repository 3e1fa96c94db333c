#include "tftf/quant/fp8.h"

#include <algorithm>
#include <unordered_map>

#include "tftf/base/affix.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// `name` is `word`, or ends in it after a '.': what stands before it, the '.' included.
std::optional<std::string_view> owner(std::string_view name, std::string_view word) {
  if (!ends_with(name, word)) return std::nullopt;
  const std::string_view before = name.substr(0, name.size() - word.size());
  if (!before.empty() && before.back() != '.') return std::nullopt;
  return before;
}

std::optional<Fp8Geometry> matrix_geometry(uint64_t rows, uint64_t cols, const Shape& scale, Fp8Block block) {
  using Kind = Fp8Geometry::Kind;
  const uint64_t grid_rows = ceil_div(rows, block.rows), grid_cols = ceil_div(cols, block.cols);
  Fp8Geometry g{.rows = rows, .cols = cols};
  const auto is = [&scale](std::initializer_list<uint64_t> shape) {
    return std::equal(scale.begin(), scale.end(), shape.begin(), shape.end());
  };
  if (is({grid_rows, grid_cols})) {
    g.kind = Kind::kBlock;
    g.block_rows = block.rows, g.block_cols = block.cols;
    g.row_stride = grid_cols, g.col_stride = 1;
    g.grid_elements = grid_rows * grid_cols;
  } else if (is({grid_cols, grid_rows})) {
    g.kind = Kind::kTransposed;
    g.block_rows = block.rows, g.block_cols = block.cols;
    g.row_stride = 1, g.col_stride = grid_rows;
    g.grid_elements = grid_rows * grid_cols;
  } else if (is({}) || is({1}) || is({1, 1})) {
    g.kind = Kind::kTensor;
    g.block_rows = std::max<uint64_t>(rows, 1), g.block_cols = std::max<uint64_t>(cols, 1);
  } else if (is({rows}) || is({rows, 1})) {
    g.kind = Kind::kRow;
    g.block_cols = std::max<uint64_t>(cols, 1);
    g.row_stride = 1;
    g.grid_elements = rows;
  } else if (is({1, cols})) {
    g.kind = Kind::kColumn;
    g.block_rows = std::max<uint64_t>(rows, 1);
    g.col_stride = 1;
    g.grid_elements = cols;
  } else {
    return std::nullopt;
  }
  return g;
}

bool is_one_scale(const Shape& scale) {
  return scale.size() <= 2 && std::all_of(scale.begin(), scale.end(), [](uint64_t d) { return d == 1; });
}

}  // namespace

Fp8Pairing pair_fp8(std::span<const TensorView> tensors) {
  std::unordered_map<std::string_view, uint32_t> by_name;
  by_name.reserve(tensors.size());
  for (uint32_t i = 0; i < tensors.size(); ++i) by_name.emplace(tensors[i].name, i);
  const auto find = [&by_name](std::string_view name) -> std::optional<uint32_t> {
    const auto at = by_name.find(name);
    if (at == by_name.end()) return std::nullopt;
    return at->second;
  };

  Fp8Pairing pairing;
  std::vector<bool> taken(tensors.size());  // scales, and weights that have one
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    Fp8ScaleName kind = Fp8ScaleName::kInverse;
    std::optional<std::string_view> before = owner(name, "weight_scale_inv");
    if (!before) {
      before = owner(name, "weight_scale");
      if (before) kind = Fp8ScaleName::kPlain;
    }
    std::optional<uint32_t> weight;
    if (before) {
      weight = find(std::string(*before) + "weight");
      if (!weight && !before->empty()) weight = find(before->substr(0, before->size() - 1));
      taken[i] = true;
      if (!weight) {
        pairing.orphans.push_back(i);
        continue;
      }
    } else if (ends_with(name, "_scale_inv")) {
      weight = find(name.substr(0, name.size() - std::string_view("_scale_inv").size()));
    }
    if (!weight) continue;
    taken[i] = taken[*weight] = true;
    pairing.scales.push_back({*weight, i, kind});
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (is_fp8(tensors[i].dtype) && !taken[i]) pairing.unscaled.push_back(i);
  }
  return pairing;
}

std::optional<Fp8Geometry> fp8_geometry(const Shape& weight, const Shape& scale, Fp8Block block) {
  if (weight.size() == 2) return matrix_geometry(weight[0], weight[1], scale, block);
  if (weight.size() >= 3) {
    const auto leading = static_cast<ptrdiff_t>(weight.size()) - 2;
    if (scale.size() <= weight.size() && static_cast<ptrdiff_t>(scale.size()) >= leading &&
        std::equal(weight.begin(), weight.begin() + leading, scale.begin())) {
      auto g = matrix_geometry(weight[weight.size() - 2], weight.back(),
                               Shape(scale.begin() + leading, scale.end()), block);
      if (g) {
        for (ptrdiff_t i = 0; i < leading; ++i) g->matrices *= weight[static_cast<size_t>(i)];
        return g;
      }
    }
  }
  if (!is_one_scale(scale)) return std::nullopt;
  // One scale over everything: the elements are one long row.
  Fp8Geometry g;
  for (const uint64_t d : weight) g.cols *= d;
  g.block_cols = std::max<uint64_t>(g.cols, 1);
  g.shared = true;
  return g;
}

std::string fp8_expected_grid(const Shape& weight, Fp8Block block) {
  if (weight.size() < 2) return "one scale";
  Shape grid{ceil_div(weight[weight.size() - 2], block.rows), ceil_div(weight.back(), block.cols)};
  grid.insert(grid.begin(), weight.begin(), weight.end() - 2);
  return "a scale grid " + shape_text(grid) + " for blocks of " + std::to_string(block.rows) + " x " +
         std::to_string(block.cols);
}

bool is_fp8_scale_dtype(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16 || dtype == DType::F64 ||
         dtype == DType::F8_E8M0;
}

Result<std::optional<Fp8Block>> fp8_config_block(const QuantConfig& config) {
  const JsonValue* size = config.get("weight_block_size");
  if (size == nullptr) return std::optional<Fp8Block>();
  const auto side = [size](size_t i) -> uint64_t {
    const std::optional<int64_t> value = size->elements[i].as_integer();
    return value && *value > 0 ? static_cast<uint64_t>(*value) : 0;
  };
  if (!size->is_array() || size->elements.size() != 2 || side(0) == 0 || side(1) == 0) {
    return Error{.code = ErrorCode::kRefusedConfig,
                 .message = "The weight_block_size of the quantisation section is " + size->brief() +
                            ", not two positive integers; --block-size can replace it.",
                 .file = "config.json",
                 .expected = "two positive integers",
                 .found = size->brief()};
  }
  return std::optional<Fp8Block>(Fp8Block{side(0), side(1)});
}

}  // namespace tftf
