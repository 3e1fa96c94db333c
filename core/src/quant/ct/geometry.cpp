// Fits the tensors of a module together (spec compressed-tensors 2.2, 2.3, 3).
#include <algorithm>

#include "quant/ct/layout.h"
#include "tftf/base/checked.h"
#include "tftf/quant/encoder.h"
#include "tftf/simd/cast.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kDefaultBlock = 128;

std::string found_and_expected(std::string_view what, const Shape& found, const Shape& expected,
                               std::string_view why) {
  std::string text = std::string(what) + " is " + shape_text(found) + ", expected " + shape_text(expected);
  if (!why.empty()) text += " for " + std::string(why);
  if (found.size() == expected.size() && found != expected && Shape(found.rbegin(), found.rend()) == expected)
    text += ": it is transposed";
  return text;
}

Rule scale_rule(Strategy strategy) {
  switch (strategy) {
    case Strategy::kChannel:
      return Rule::QT022;
    case Strategy::kGroup:
    case Strategy::kTensorGroup:
      return Rule::QT023;
    case Strategy::kBlock:
      return Rule::QT024;
    default:
      return Rule::QT021;
  }
}

void set_grid(Layout& layout, uint64_t scale_rows, uint64_t scale_columns, uint64_t grid_rows,
              uint64_t grid_columns) {
  layout.scale_rows = std::max<uint64_t>(scale_rows, 1);
  layout.scale_columns = std::max<uint64_t>(scale_columns, 1);
  layout.grid_rows = grid_rows;
  layout.grid_columns = grid_columns;
}

bool fits_blocks(const Layout& layout, const Shape& grid, uint64_t rows, uint64_t columns) {
  return grid == Shape{ceil_div(layout.rows, rows), ceil_div(layout.columns, columns)};
}

// The grid of one matrix; false when the shape tells nothing.
bool take_grid(Layout& layout, const Shape& grid, const Args* args) {
  const uint64_t rows = layout.rows, columns = layout.columns;
  if (args != nullptr && args->strategy == Strategy::kBlock &&
      fits_blocks(layout, grid, args->block[0], args->block[1])) {
    set_grid(layout, args->block[0], args->block[1], grid[0], grid[1]);
    return true;
  }
  if (element_count(grid) == 1) {
    set_grid(layout, rows, columns, 1, 1);
    return true;
  }
  if (grid == Shape{rows} || grid == Shape{rows, 1}) {
    set_grid(layout, 1, columns, rows, 1);
    return true;
  }
  if (grid.size() == 2 && grid[0] == rows && grid[1] > 0 && columns % grid[1] == 0) {
    set_grid(layout, 1, columns / grid[1], rows, grid[1]);
    return true;
  }
  if (!fits_blocks(layout, grid, kDefaultBlock, kDefaultBlock)) return false;
  set_grid(layout, kDefaultBlock, kDefaultBlock, grid[0], grid[1]);
  return true;
}

// Whether the tensor has one zero point per scale.
bool covers_grid(const Layout& layout, const Shape& zeros) {
  const auto scales = checked_mul(std::max<uint64_t>(layout.grid_rows, 1), layout.grid_columns);
  const auto all = scales ? checked_mul(*scales, layout.grid_rows == 0 ? 1 : layout.matrices) : std::nullopt;
  return all && element_count(zeros) == all;
}

}  // namespace

bool set_shape(Layout& layout, const Shape& shape) {
  if (shape.empty()) return false;
  layout.columns = shape.back();
  layout.rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  layout.matrices = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    const auto product = checked_mul(layout.matrices, shape[i]);
    if (!product) return false;
    layout.matrices = *product;
  }
  return element_count(shape).has_value() && checked_mul(layout.matrices, layout.rows).has_value();
}

Shape expected_scales(const Args& args, const Layout& layout) {
  switch (args.strategy) {
    case Strategy::kChannel:
      return {layout.rows, 1};
    case Strategy::kGroup:
    case Strategy::kTensorGroup:
      return {layout.rows, ceil_div(layout.columns, static_cast<uint64_t>(args.group_size))};
    case Strategy::kBlock:
      return {ceil_div(layout.rows, args.block[0]), ceil_div(layout.columns, args.block[1])};
    default:
      return {1};
  }
}

Fault fit_scales(Layout& layout, const Shape& scales, const Args* args, bool& agrees) {
  agrees = true;
  layout.scaled = true;
  if (args != nullptr && args->grouped() && layout.columns % static_cast<uint64_t>(args->group_size) != 0 &&
      !scales.empty() && scales.back() == expected_scales(*args, layout)[1])
    return Fault(Rule::QT023, std::to_string(layout.columns) + " columns are no multiple of the group size " +
                                  std::to_string(args->group_size));
  Shape grid = scales;
  if (element_count(scales) == 1 && layout.matrices > 1) {
    set_grid(layout, layout.rows, layout.columns, 0, 1);
    agrees = args == nullptr || args->strategy == Strategy::kTensor;
    return "";
  }
  if (layout.matrices > 1) {
    // One grid per matrix: the leading dimensions come first.
    uint64_t product = 1;
    size_t at = 0;
    while (at < scales.size() && product < layout.matrices) product *= std::max<uint64_t>(scales[at++], 1);
    if (product != layout.matrices)
      return "weight_scale is " + shape_text(scales) + " for " + std::to_string(layout.matrices) +
             " matrices";
    grid.assign(scales.begin() + static_cast<ptrdiff_t>(at), scales.end());
  }
  const std::string why = args == nullptr ? "" : args_text(*args);
  if (!take_grid(layout, grid, args)) {
    if (args != nullptr) {
      const Shape expected = expected_scales(*args, layout);
      const bool turned = grid != expected && Shape(grid.rbegin(), grid.rend()) == expected;
      return Fault(turned ? Rule::QT031 : scale_rule(args->strategy),
                   found_and_expected("weight_scale", grid, expected, why));
    }
    return "weight_scale is " + shape_text(grid) + ", which is no grid over " +
           shape_text({layout.rows, layout.columns});
  }
  if (!covers_grid(layout, scales))
    return "weight_scale is " + shape_text(scales) + " for " + std::to_string(layout.matrices) +
           " matrices of " + shape_text({layout.rows, layout.columns});
  if (args != nullptr) {
    const Shape expected = expected_scales(*args, layout);
    agrees = grid == expected || (element_count(grid) == 1 && element_count(expected) == 1) ||
             (expected == Shape{layout.rows, 1} && grid == Shape{layout.rows});
  }
  return "";
}

Fault fit_zeros(Layout& layout, const TensorInfo& zeros, std::optional<uint64_t> version) {
  layout.zero_dtype = zeros.dtype;
  if (zeros.dtype != DType::I32 || layout.codes != Codes::kWords) {
    if (!can_cast(zeros.dtype, DType::F32))
      return Fault(Rule::QT025,
                   "weight_zero_point is " + std::string(dtype_name(zeros.dtype)) + ", which is no number");
    if (!covers_grid(layout, zeros.shape))
      return Fault(Rule::QT025, found_and_expected("weight_zero_point", zeros.shape,
                                                   {layout.grid_rows, layout.grid_columns}, "one per scale"));
    layout.zeros = Zeros::kPlain;
    return "";
  }
  layout.zeros = Zeros::kPacked;
  layout.zero_rows = packed_words(layout.rows, layout.bits, layout.padded);
  if (layout.scale_rows != 1)
    return Fault(Rule::QT044,
                 "weight_zero_point is packed, which goes with a scale per row or group, not with " +
                     shape_text({layout.grid_rows, layout.grid_columns}) + " scales");
  Shape expected{layout.zero_rows, layout.grid_columns};
  const size_t rank = zeros.shape.size();
  const bool same = rank >= 2 && zeros.shape[rank - 2] == expected[0] && zeros.shape[rank - 1] == expected[1];
  const auto all = checked_mul(layout.matrices, layout.zero_rows * layout.grid_columns);
  if (same && element_count(zeros.shape) == all) return "";
  std::string what = found_and_expected("packed weight_zero_point", zeros.shape, expected, "");
  constexpr uint64_t kFirstBroken = 9'004, kLastBroken = 10'002;
  const bool destroyed = rank == 2 && zeros.shape[1] > expected[1] &&
                         (!version || (*version >= kFirstBroken && *version <= kLastBroken));
  if (destroyed)
    what +=
        "; compressed-tensors 0.9.4 to 0.10.2 destroyed the zero points of such shapes, and nothing brings "
        "them back";
  return Fault(destroyed ? Rule::QT046 : Rule::QT044, std::move(what));
}

Fault fit_order(Layout& layout, const TensorInfo& order) {
  layout.ordered = true;
  if (order.dtype != DType::I32)
    return Fault(Rule::QT045, "weight_g_idx is " + std::string(dtype_name(order.dtype)) + ", expected I32");
  if (order.shape != Shape{layout.columns})
    return Fault(Rule::QT045, found_and_expected("weight_g_idx", order.shape, {layout.columns}, ""));
  if (layout.scale_rows != 1)
    return Fault(Rule::QT045, "weight_g_idx lists groups of columns, and the scales have none");
  return layout.grid_columns <= UINT32_MAX ? "" : "weight_scale has more groups than weight_g_idx can number";
}

uint64_t packed_words(uint64_t columns, uint64_t bits, bool padded) {
  if (padded) return ceil_div(columns, 32 / bits);
  // columns * bits / 32, rounded up, without overflow
  return columns / 32 * bits + ceil_div(columns % 32 * bits, 32);
}

Result<Weight> open_layout(OpenContext& context, const QuantMatch& match) {
  if (!match.detail || !match.logical_shape)
    return weight_fault(ErrorCode::kRefusedShape, context, match, "has a shape that could not be read");
  Weight weight;
  weight.state = match.detail;
  const auto& layout = weight.as<Layout>();
  weight.decoder = &kLayoutDecoder;
  weight.word = match.layout;
  weight.shape = *match.logical_shape;
  weight.elements = element_count(weight.shape).value_or(0);
  weight.unit = std::max<uint64_t>(layout.columns, 1);
  weight.parts.push_back({match.role, match.weight});
  for (const std::string_view role : {"bitmask", "row_offsets"})
    if (const TensorRef* part = match.find(role)) weight.parts.push_back({role, *part});
  for (const std::string_view role :
       {"weight_scale", "weight_global_scale", "weight_zero_point", "weight_g_idx"})
    if (const TensorRef* part = match.find(role); part != nullptr && layout.scaled)
      weight.parts.push_back({role, *part});
  if (layout.sparse == Sparse::kBitmask) {
    weight.tile_unit = std::max<uint64_t>(weight.elements, 1);
    if (weight.elements > kLargestUnitBytes / sizeof(float))
      return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                          "is sparse and too large to be decoded: the whole matrix is needed at once");
  } else if (layout.sparse == Sparse::kTwoOfFour && layout.columns % 4 != 0) {
    weight.unit = 2 * layout.columns;
  }
  // Codes, and a bit for what goes with them; exact where a row has more scales than that.
  uint64_t bits = layout.sparse != Sparse::kNo ? dtype_bits(layout.code_dtype) + 1
                  : layout.columns == 0        ? 8
                                               : ceil_div(layout.code_bytes * 8, layout.columns);
  if (layout.scaled)
    bits +=
        ceil_div(layout.grid_columns * (dtype_bits(layout.scale_dtype) +
                                        (layout.zeros == Zeros::kNone ? 0 : dtype_bits(layout.zero_dtype))),
                 std::max<uint64_t>(layout.columns, 1));
  weight.bits = static_cast<uint32_t>(std::min<uint64_t>(bits, UINT32_MAX));
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  for (const uint64_t n : {uint64_t{static_cast<uint8_t>(layout.codes)},
                           uint64_t{static_cast<uint8_t>(layout.code_dtype)},
                           uint64_t{layout.bits},
                           uint64_t{layout.padded},
                           uint64_t{static_cast<uint8_t>(layout.sparse)},
                           layout.stored,
                           layout.matrices,
                           layout.rows,
                           layout.columns,
                           uint64_t{layout.scaled},
                           uint64_t{layout.global},
                           uint64_t{static_cast<uint8_t>(layout.scale_dtype)},
                           uint64_t{static_cast<uint8_t>(layout.result)},
                           layout.scale_rows,
                           layout.scale_columns,
                           layout.grid_rows,
                           layout.grid_columns,
                           uint64_t{static_cast<uint8_t>(layout.zeros)},
                           uint64_t{static_cast<uint8_t>(layout.zero_dtype)},
                           uint64_t{layout.ordered},
                           uint64_t{weight.parts.size()}})
    weight.key += std::to_string(n) + ' ';
  return weight;
}

}  // namespace tftf::ct
